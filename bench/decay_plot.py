"""Draw how recent memory fades, as an SVG for the docs: `python bench/decay_plot.py docs/images/decay.svg`.

The curves come from `recordari.lifetime.rules` itself, so that the picture cannot differ from what the daily job does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from recordari.evaluation.rules import svg
from recordari.lifetime.rules import ARCHIVE_BELOW, STRONGEST, WEAKEST, lifetime, retention

WIDTH, HEIGHT = 760, 420
DAYS = 40
STRENGTHS = (WEAKEST, 30.0, 45.0, STRONGEST)
FRAME = svg.Frame(left=70, top=40, width=520, height=320, most_x=DAYS, most_y=1.0)


def curve(strength: float, colour: str) -> list[str]:
    """One curve, where it crosses the threshold, and its name at the right."""
    below = 12 if strength == WEAKEST else 2  # the lowest curves end close together
    points = [(quarter / 4, retention(quarter * 6, strength)) for quarter in range(DAYS * 4 + 1)]
    days = lifetime(strength).total_seconds() / 86_400
    return [
        FRAME.curve(points, colour),
        f'<circle cx="{FRAME.x(days):.1f}" cy="{FRAME.y(ARCHIVE_BELOW):.1f}" r="4" fill="{colour}"/>',
        svg.text(
            FRAME.x(DAYS) + 8, FRAME.y(points[-1][1]) + below, f"S = {strength:.0f}: {days:.0f} days", fill=colour
        ),
    ]


def picture() -> str:
    """The whole picture."""
    body = FRAME.axes(
        range(0, DAYS + 1, 5),
        [tenth / 10 for tenth in range(0, 11, 2)],
        title="retention = exp(-0.1 × hours / S)",
        below="days since it was kept or last recalled",
    )
    threshold, right = FRAME.y(ARCHIVE_BELOW), FRAME.x(DAYS)
    body.append(svg.line(FRAME.left, threshold, right, threshold, stroke="#444", dashed=True))
    body.append(svg.text(right - 4, threshold - 6, f"archived below {ARCHIVE_BELOW}", anchor="end"))
    for strength, colour in zip(STRENGTHS, svg.COLOURS, strict=True):
        body.extend(curve(strength, colour))
    return svg.picture(WIDTH, HEIGHT, "How recent memory decays", body)


def main(arguments: list[str]) -> None:
    """Write the picture to the file given."""
    if len(arguments) != 1:
        raise SystemExit("usage: python bench/decay_plot.py FILE.svg")
    file = Path(arguments[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(picture(), "utf-8")
    print(f"{file}: {len(picture())} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
