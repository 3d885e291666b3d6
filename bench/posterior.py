"""Show how choosing learns: the posteriors of some workflows to plot, and the regret over time.

Workflows of known worth are chosen and rewarded as an agent would do it; the outcome of each choice is a success with
the probability of its worth. Regret is what always choosing the best one would have gained more. It is compared with
choosing blindly. All of it is pure: no database is needed. Writes `bench/results/posterior.json`, and with
`--plot docs/images/posterior.svg` a picture of it.
"""

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from recordari.evaluation.rules import svg
from recordari.learning.rules.workflows import Posterior, thompson

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
    if arguments.plot is not None:
        arguments.plot.parent.mkdir(parents=True, exist_ok=True)
        arguments.plot.write_text(_picture(figures), "utf-8")
        print(f"{arguments.plot}: drawn")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worth", type=float, nargs="+", default=[0.35, 0.5, 0.6], help="worth of each workflow")
    parser.add_argument("--rounds", type=int, default=1_000, help="choices in a run")
    parser.add_argument("--runs", type=int, default=40, help="runs to average over")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw a picture too")
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


def _picture(figures: dict[str, Any]) -> str:
    """What is believed of each workflow after one run, and what was lost on the way."""
    densities = [belief["density"] for belief in figures["posteriors"]]
    highest = max(height for density in densities for _, height in density)
    left = svg.Frame(left=60, top=50, width=330, height=290, most_x=1.0, most_y=highest * 1.05)
    body = left.axes([tenth / 10 for tenth in range(0, 11, 2)], [], title="posteriors after one run", below="worth")
    body.append(svg.line(left.left, left.y(0), left.x(1), left.y(0), stroke="#444"))
    names = zip(figures["worths"], figures["posteriors"], densities, svg.COLOURS, strict=False)
    for place, (worth, belief, density, colour) in enumerate(names):
        tries = belief["alpha"] + belief["beta"] - 2
        body.append(left.curve(density, colour))
        body.append(svg.line(left.x(worth), left.y(0), left.x(worth), left.y(0) + 7, stroke=colour))
        said = f"{worth:g}: chosen {tries:.0f} times"
        body.append(svg.text(left.left + 8, left.top + 18 + 18 * place, said, fill=colour))
    most = max(curve[-1] for curve in figures["regret"].values())
    rounds = figures["rounds"]
    right = svg.Frame(left=480, top=50, width=300, height=290, most_x=rounds, most_y=most * 1.05)
    step = max(1, round(most / 5 / 10) * 10)
    body += right.axes(
        [rounds * part / 4 for part in range(5)],
        [float(figure) for figure in range(0, int(most) + 1, step)],
        title="reward lost against always choosing the best",
        below="choices",
    )
    for (name, curve), colour in zip(figures["regret"].items(), reversed(svg.COLOURS), strict=False):
        points = [(rounds * (place + 1) / len(curve), lost) for place, lost in enumerate(curve)]
        body.append(right.curve([(0, 0), *points], colour))
        body.append(svg.text(right.x(rounds) + 6, right.y(curve[-1]) + 4, f"{name}: {curve[-1]:.0f}", fill=colour))
    return svg.picture(900, 400, "How choosing learns", body)


if __name__ == "__main__":
    raise SystemExit(main())
