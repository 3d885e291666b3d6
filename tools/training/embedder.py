"""Learns from the dialogues, and writes the patch of the embedding model: about half an hour on two cores.

Texts are embedded as the product embeds them. A question has to be nearer to the turns that answer it than to all other turns
of its memory and of another one; and by one measure for all questions, so that a similarity says how sure it is.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from recordari.evaluation.rules.formats import Haystack
from recordari.evaluation.rules.measures import auc
from recordari.memory.rules import PREVIOUS_HEAD, embedded_text
from recordari.models.pull import PROFILES
from recordari.models.registry import ModelSpec
from tools.training import dialogues
from tools.training.network import IS_SHORT, Embedder, ModelFile
from tools.training.patch import begin, write_patch

MODEL = PROFILES["best"]
FROZEN = 4
"""The first layers stay as they are; what they make of each text is kept, so that it is computed once."""
RATE, WARM_UP = 8e-5, 0.06
MEMORIES, QUESTIONS = 2, 20
"""Memories of a step, all of their turns, and questions of each."""
TEMPERATURE = 0.03
HARDEST, SURE_WEIGHT = 8, 0.3
"""Turns of a question that do not answer it, by which it learns how near is near; and what that counts."""
MOST_TOKENS, PART = 128, 24
HELD_OUT = 24


@dataclass(frozen=True, slots=True)
class Studied:
    """A memory: what the frozen layers made of its turns and questions, and the turns that answer each question."""

    turns: Sequence[Tensor]
    questions: Sequence[Tensor]
    answers: Sequence[Sequence[int]]


def embedded_turns(memory: Haystack) -> list[str]:
    """The text of each turn as it is embedded: with the head of the turn before it in its session."""
    texts: list[str] = []
    for number, turn in enumerate(memory.turns):
        before = memory.turns[number - 1] if number else None
        follows = before is not None and _session(before.source_ref) == _session(turn.source_ref)
        texts.append(
            embedded_text(
                turn.content,
                speaker=turn.speaker,
                event_time=turn.event_time,
                previous_speaker=before.speaker if before is not None and follows else None,
                previous_head=before.content[:PREVIOUS_HEAD] if before is not None and follows else None,
            )
        )
    return texts


def _session(ref: str | None) -> str:
    return (ref or "").partition("#")[0]


class Study:
    """What the network makes of memories."""

    def __init__(self, network: Embedder, tokenizer: Tokenizer, spec: ModelSpec) -> None:
        self.network = network
        self._tokenizer = tokenizer
        self._spec = spec

    def prepare(self, memory: Haystack) -> Studied:
        places = {turn.source_ref: place for place, turn in enumerate(memory.turns)}
        turns = [self._spec.passage_prefix + text for text in embedded_turns(memory)]
        questions = [self._spec.query_prefix + one.text for one in memory.questions]
        return Studied(
            self._frozen_part(turns),
            self._frozen_part(questions),
            [sorted(places[ref] for ref in one.evidence) for one in memory.questions],
        )

    def vectors(self, texts: Sequence[Tensor]) -> Tensor:
        """Of what the frozen layers made of each text."""

        def computed(part: Sequence[Tensor]) -> Iterable[Tensor]:
            return list(self.network(*padded([text.float() for text in part])).float())

        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=IS_SHORT and self.network.training):
            return torch.stack(in_parts(texts, computed))

    def _frozen_part(self, texts: Sequence[str]) -> list[Tensor]:
        def computed(part: Sequence[Tensor]) -> Iterable[Tensor]:
            ids, mask = padded(part)
            made = self.network.frozen_part(ids, torch.zeros_like(ids), mask).half()
            return (row[: len(text)].clone() for row, text in zip(made, part, strict=True))

        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=IS_SHORT):
            return in_parts([torch.tensor(self._tokenizer.encode(text).ids) for text in texts], computed)


def in_parts(texts: Sequence[Tensor], computed: Callable[[Sequence[Tensor]], Iterable[Tensor]]) -> list[Tensor]:
    """What is computed of each; texts of like length are computed together."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    made = [torch.empty(0)] * len(texts)
    for start in range(0, len(order), PART):
        part = order[start : start + PART]
        for place, one in zip(part, computed([texts[place] for place in part]), strict=True):
            made[place] = one
    return made


def padded(texts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Texts as one tensor, and which of it is text."""
    x = nn.utils.rnn.pad_sequence(list(texts), batch_first=True)
    lengths = torch.tensor([len(text) for text in texts])
    return x, (torch.arange(x.shape[1]) < lengths[:, None]).float()


def loss_of(similarity: Tensor, is_right: Tensor, sureness: nn.Linear) -> Tensor:
    """How unlikely the turns that answer are beside all others, and how far similarities are from saying so by themselves."""
    others = (
        (similarity / TEMPERATURE).masked_fill(is_right, -torch.inf).logsumexp(1, keepdim=True).expand_as(similarity)
    )
    right = similarity[is_right] / TEMPERATURE
    by_order = (torch.logaddexp(right, others[is_right]) - right).mean()
    hardest = similarity.masked_fill(is_right, -torch.inf).topk(HARDEST, 1).values.reshape(-1, 1)
    too_near = functional.softplus(sureness(hardest)).mean()
    too_far = functional.softplus(-sureness(similarity[is_right][:, None])).mean()
    return by_order + SURE_WEIGHT * (too_near + too_far)


def learn(study: Study, memories: Sequence[Studied], epochs: float) -> None:
    network, chance = study.network.train(), random.Random(1)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    sureness = nn.Linear(1, 1)
    with torch.no_grad():  # where the public model's similarities of right and wrong turns part
        sureness.weight.fill_(20.0)
        sureness.bias.fill_(-17.0)
    groups = [
        {"params": weights, "weight_decay": 0.01, "times": 1.0},
        {"params": sureness.parameters(), "weight_decay": 0.0, "times": 200.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=RATE)
    steps = int(len(memories) * epochs / MEMORIES)
    waiting: list[Studied] = []
    for step in range(steps):
        if len(waiting) < MEMORIES:
            waiting = chance.sample(memories, len(memories))
        for group in optimiser.param_groups:
            group["lr"] = RATE * group["times"] * min(1.0, (step + 1) / (WARM_UP * steps)) * max(0.02, 1 - step / steps)
        loss = loss_of(*compared(study, [waiting.pop() for _ in range(MEMORIES)], chance), sureness)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 50 == 49:
            sys.stdout.write(f"step {step + 1} of {steps}: loss {loss.item():.3f}\n")
            sys.stdout.flush()


def compared(study: Study, memories: Sequence[Studied], chance: random.Random) -> tuple[Tensor, Tensor]:
    """How near questions of some memories are to all their turns, and which of these answer."""
    turns: list[Tensor] = []
    questions: list[Tensor] = []
    answers: list[list[int]] = []
    for one in memories:
        for number in chance.sample(range(len(one.questions)), min(QUESTIONS, len(one.questions))):
            questions.append(one.questions[number])
            answers.append([len(turns) + place for place in one.answers[number]])
        turns += one.turns
    vectors = study.vectors([*turns, *questions])
    similarity = vectors[len(turns) :] @ vectors[: len(turns)].T
    is_right = torch.zeros(similarity.shape, dtype=torch.bool)
    for row, places in enumerate(answers):
        is_right[row, places] = True
    return similarity, is_right


def say_quality(study: Study, memories: Sequence[Studied], when: str) -> None:
    """Recall of the turns that answer, and how often a question with an answer has a nearer turn than one without (AUC)."""
    study.network.eval()
    found: list[float] = []
    highest: list[float] = []
    is_answered: list[bool] = []
    with torch.no_grad():
        for memory in memories:
            similarity = study.vectors(memory.questions) @ study.vectors(memory.turns).T
            highest += similarity.max(1).values.tolist()
            is_answered += [bool(answers) for answers in memory.answers]
            for row, answers in zip(similarity, memory.answers, strict=True):
                if answers:
                    found.append(len({*row.topk(5).indices.tolist()} & {*answers}) / len(answers))
    told = auc(np.array(highest), is_answered)
    sys.stdout.write(f"{when}: recall@5 {np.mean(found):.3f}, AUC {told:.3f}\n")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=float, default=3.0)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    base, patch = begin(MODEL)
    tokenizer = Tokenizer.from_file(str(base.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_TOKENS)
    network, file = Embedder(frozen=FROZEN), ModelFile(base.weights)
    file.read_into(network)
    study = Study(network.eval(), tokenizer, base.spec)
    memories = [study.prepare(memory) for memory in dialogues.read_all()]
    random.Random(3).shuffle(memories)
    held_out, learnt = memories[:HELD_OUT], memories[HELD_OUT:]
    say_quality(study, held_out, f"{HELD_OUT} memories that are not learnt from, before")
    learn(study, learnt, arguments.epochs)
    say_quality(study, held_out, "after")
    write_patch(base.weights.read_bytes(), file.with_weights(network, seed=1), patch)


if __name__ == "__main__":
    main()
