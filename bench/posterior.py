"""Show how choosing learns: the posteriors of some procedures to plot, and the regret over time.

Procedures of known worth are chosen and rewarded as an agent would do it; the outcome of each choice is a success with
the probability of its worth. Regret is what always choosing the best one would have gained more. It is compared with
choosing blindly. All of it is pure: no database is needed. Writes `bench/results/posterior.json`, and with --plot a
picture beside it (needs matplotlib).
"""

import argparse
import json
import random
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from recollect.domain.bandit import Posterior, thompson

CHECKPOINTS = 50
Chooser = Callable[[Sequence[Posterior], random.Random], int]


def main() -> int:
    """Run the simulation and write its figures."""
    arguments = _arguments()
    worths: list[float] = arguments.worth
    choosers: dict[str, Chooser] = {
        "thompson": lambda beliefs, chance: thompson(beliefs, chance)[0],
        "blind": lambda beliefs, chance: chance.randrange(len(beliefs)),
    }
    figures: dict[str, Any] = {
        "worths": worths,
        "rounds": arguments.rounds,
        "runs": arguments.runs,
        "regret": {},
    }
    for name, chooser in choosers.items():
        runs = [_simulate(worths, chooser, arguments.rounds, seed) for seed in range(arguments.runs)]
        figures["regret"][name] = [fmean(values) for values in zip(*(curve for curve, _ in runs), strict=True)]
        if name == "thompson":
            figures["posteriors"] = [_described(belief) for belief in runs[0][1]]
    _print(figures)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "posterior.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if arguments.plot:
        _plot(figures, results / "posterior.png")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worth", type=float, nargs="+", default=[0.35, 0.5, 0.6], help="worth of each procedure")
    parser.add_argument("--rounds", type=int, default=1_000, help="choices in a run")
    parser.add_argument("--runs", type=int, default=40, help="runs to average over")
    parser.add_argument("--plot", action="store_true", help="draw a picture too")
    return parser.parse_args()


def _simulate(worths: Sequence[float], choose: Chooser, rounds: int, seed: int) -> tuple[list[float], list[Posterior]]:
    """The regret at each checkpoint of one run, and what is believed at its end."""
    chance = random.Random(seed)
    beliefs, best, regret, curve = [Posterior() for _ in worths], max(worths), 0.0, []
    for turn in range(1, rounds + 1):
        place = choose(beliefs, chance)
        beliefs[place] = beliefs[place].rewarded(float(chance.random() < worths[place]))
        regret += best - worths[place]
        if turn * CHECKPOINTS % rounds < CHECKPOINTS:
            curve.append(regret)
    return curve, beliefs


def _described(belief: Posterior) -> dict[str, Any]:
    low, high = belief.interval()
    return {
        "alpha": belief.alpha,
        "beta": belief.beta,
        "mean": belief.mean,
        "interval": [low, high],
        "density": belief.density(),
    }


def _print(figures: dict[str, Any]) -> None:
    print(f"{'worth':>6} {'alpha':>8} {'beta':>8} {'mean':>6}  95 % interval")
    for worth, belief in zip(figures["worths"], figures["posteriors"], strict=True):
        low, high = belief["interval"]
        print(f"{worth:6.2f} {belief['alpha']:8.1f} {belief['beta']:8.1f} {belief['mean']:6.3f}  {low:.3f}–{high:.3f}")
    for name, curve in figures["regret"].items():
        print(f"regret after {figures['rounds']} choices, {name}: {curve[-1]:.1f}")


def _plot(figures: dict[str, Any], file: Path) -> None:
    pyplot = import_module("matplotlib.pyplot")  # not among our dependencies

    drawing, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    for worth, belief in zip(figures["worths"], figures["posteriors"], strict=True):
        left.plot(*zip(*belief["density"], strict=True), label=f"worth {worth}")
    left.set(title="What is believed after one run", xlabel="worth", ylabel="density")
    for name, curve in figures["regret"].items():
        step = figures["rounds"] / len(curve)
        right.plot([step * (n + 1) for n in range(len(curve))], curve, label=name)
    right.set(title="Regret", xlabel="choices", ylabel="lost reward")
    for axes in (left, right):
        axes.legend()
    drawing.tight_layout()
    drawing.savefig(file, dpi=120)


if __name__ == "__main__":
    raise SystemExit(main())
