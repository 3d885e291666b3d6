"""Learns from the dialogues, and writes the patch of the cross-encoder: about half an hour on two cores."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from recordari.evaluation.rules.measures import auc
from recordari.models.pull import RERANKER
from tools.training import dialogues
from tools.training.candidates import Example, collect
from tools.training.network import IS_SHORT, CrossEncoder, ModelFile
from tools.training.patch import begin, write_patch

FROZEN = 4
"""The first layers stay as they are: what they know of words holds for memories too."""
RATE, WARM_UP = 3e-5, 0.06
BATCH, PART = 4, 15
"""Questions of a step, and pairs that are computed at once."""
RIGHT, WRONG, NEAR = 2, 5, 12
"""Passages of a question that are read: those that answer it, those that do not, and of how many near ones these are."""
MOST_TOKENS = 192
RIGHT_WEIGHT, ORDER_WEIGHT = 2.0, 0.5
HELD_OUT = 0.03


class Reader:
    """The network with its tokens, and what it makes of questions and passages."""

    def __init__(self, network: CrossEncoder, tokenizer: Tokenizer, seed: int) -> None:
        self.network = network
        self._tokenizer = tokenizer
        self._chance = random.Random(seed)

    def pairs(self, examples: Sequence[Example]) -> Iterator[tuple[int, str, str, bool]]:
        """Passages of each question, those that answer it first: the number of its example, and whether it is right."""
        draw = self._chance.sample
        for number, one in enumerate(examples):
            right = draw(one.right, min(RIGHT, len(one.right)))
            near, far = one.wrong[:NEAR], one.wrong[NEAR:]
            if right:
                wrong = draw(near, min(len(near), WRONG - 2))
                wrong += draw(far, min(len(far), WRONG - len(wrong)))
            else:
                wrong = [*near[:1], *draw(near[1:], min(2, len(near[1:])))]
            yield from ((number, one.question, passage, True) for passage in right)
            yield from ((number, one.question, passage, False) for passage in wrong)

    def read(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor, Tensor]:
        """The log-odds of pairs of these questions, whether each is right, and whose it is."""
        pairs = list(self.pairs(examples))
        encoded = [self._tokenizer.encode(question, passage) for _, question, passage, _ in pairs]
        order = sorted(range(len(pairs)), key=lambda place: len(encoded[place].ids))
        odds: list[Tensor] = [torch.empty(0)] * len(pairs)
        for start in range(0, len(order), PART):
            part = order[start : start + PART]
            shape = (len(part), max(len(encoded[place].ids) for place in part))
            ids, kinds, mask = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
            for row, place in enumerate(part):
                length = len(encoded[place].ids)
                ids[row, :length] = torch.tensor(encoded[place].ids)
                kinds[row, :length] = torch.tensor(encoded[place].type_ids)
                mask[row, :length] = 1
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=IS_SHORT and self.network.training):
                logits = self.network(ids, kinds, mask).float()
            for row, place in enumerate(part):
                odds[place] = logits[row]
        is_right = torch.tensor([float(pair[3]) for pair in pairs])
        return torch.stack(odds), is_right, torch.tensor([pair[0] for pair in pairs])


def loss_of(odds: Tensor, is_right: Tensor, of: Tensor) -> Tensor:
    """How wrong the log-odds are, and how often a passage that answers is not above those that do not."""
    weights = torch.where(is_right > 0, RIGHT_WEIGHT, 1.0)
    by_pair = functional.binary_cross_entropy_with_logits(odds, is_right, weight=weights)
    orders = []
    for number in of.unique():
        mine, right = odds[of == number], is_right[of == number] > 0
        if right.any() and not right.all():
            wrong = mine[~right]
            orders += [-functional.log_softmax(torch.cat([one[None], wrong]), 0)[0] for one in mine[right]]
    return by_pair + (ORDER_WEIGHT * torch.stack(orders).mean() if orders else 0.0)


def learn(reader: Reader, examples: Sequence[Example], epochs: float) -> None:
    network, chance = reader.network.train(), random.Random(1)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.01)
    steps = int(len(examples) * epochs / BATCH)
    waiting: list[Example] = []
    for step in range(steps):
        if len(waiting) < BATCH:
            waiting = chance.sample(examples, len(examples))
        batch = [waiting.pop() for _ in range(BATCH)]
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / (WARM_UP * steps)) * max(0.02, 1 - step / steps)
        loss = loss_of(*reader.read(batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 100 == 99:
            sys.stdout.write(f"step {step + 1} of {steps}: loss {loss.item():.3f}\n")
            sys.stdout.flush()


def say_quality(reader: Reader, examples: Sequence[Example], when: str) -> None:
    """How often a passage that answers is first, and the probability that it is above one that does not."""
    reader.network.eval()
    scores: list[float] = []
    labels: list[bool] = []
    firsts: list[bool] = []
    with torch.no_grad():
        for one in examples:
            odds, is_right, _ = reader.read([one])
            scores += odds.tolist()
            labels += [bool(right) for right in is_right]
            if is_right.any():
                firsts.append(bool(is_right[odds.argmax()]))
    share = sum(firsts) / len(firsts)
    sys.stdout.write(f"{when}: first {share:.3f}, AUC of pairs {auc(np.array(scores), labels):.3f}\n")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--home", type=Path, default=Path("/var/tmp/recordari-reader"), help="where the memories are kept"
    )
    parser.add_argument("--epochs", type=float, default=0.75)
    parser.add_argument("--again", action="store_true", help="with the candidates that were collected before")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    kept = arguments.home / "examples.json"
    if not arguments.again:
        kept.parent.mkdir(parents=True, exist_ok=True)
        collected = asyncio.run(collect(dialogues.read_all(), arguments.home))
        kept.write_text(json.dumps([asdict(one) for one in collected]), "utf-8")
    examples = [Example(**one) for one in json.loads(kept.read_text("utf-8"))]
    memories = sorted({one.memory for one in examples})
    held = set(random.Random(3).sample(memories, round(len(memories) * HELD_OUT)))
    trained_on, held_out = ([one for one in examples if (one.memory in held) is is_held] for is_held in (False, True))
    base, patch = begin(RERANKER)
    tokenizer = Tokenizer.from_file(str(base.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_TOKENS)
    network, file = CrossEncoder(frozen=FROZEN), ModelFile(base.weights)
    file.read_into(network)
    reader = Reader(network, tokenizer, seed=1)
    say_quality(reader, held_out, f"{len(held_out)} questions that are not learnt from, before")
    learn(reader, trained_on, arguments.epochs)
    say_quality(reader, held_out, "after")
    write_patch(base.weights.read_bytes(), file.with_weights(network, seed=1), patch)


if __name__ == "__main__":
    main()
