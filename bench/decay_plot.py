"""Draw how recent memory fades, as an SVG for the docs: `python bench/decay_plot.py docs/decay.svg`.

The curves come from `recollect.domain.decay` itself, so that the picture cannot differ from what the daily job does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

from recollect.domain.decay import ARCHIVE_BELOW, STRONGEST, WEAKEST, lifetime, retention

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 40, 60
DAYS = 40
CURVES = ((WEAKEST, "#b3261e"), (30.0, "#7d5fb2"), (45.0, "#2f6f8f"), (STRONGEST, "#1b7f4d"))


def x_of(days: float) -> float:
    """Where so many days stand."""
    return LEFT + (WIDTH - LEFT - RIGHT) * days / DAYS


def y_of(share: float) -> float:
    """Where so much retention stands."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def curve(strength: float, colour: str) -> list[str]:
    """One curve, where it crosses the threshold, and its name at the right."""
    points = " ".join(f"{x_of(day / 4):.1f},{y_of(retention(day * 6, strength)):.1f}" for day in range(DAYS * 4 + 1))
    days = lifetime(strength).total_seconds() / 86_400
    end = y_of(retention(DAYS * 24, strength))
    return [
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>',
        f'<circle cx="{x_of(days):.1f}" cy="{y_of(ARCHIVE_BELOW):.1f}" r="4" fill="{colour}"/>',
        text(x_of(DAYS) + 8, end + 4, f"S = {strength:.0f}: {days:.0f} days", fill=colour),
    ]


def text(x: float, y: float, said: str, *, anchor: str = "start", fill: str = "#333") -> str:
    """A word in the picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(said)}</text>'


def axes() -> list[str]:
    """The frame with its scales and the threshold."""
    lines = []
    for tenth in range(0, 11, 2):
        y = y_of(tenth / 10)
        lines.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{x_of(DAYS):.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>')
        lines.append(text(LEFT - 8, y + 4, f"{tenth / 10:.1f}", anchor="end"))
    lines.extend(text(x_of(day), HEIGHT - BOTTOM + 20, str(day), anchor="middle") for day in range(0, DAYS + 1, 5))
    threshold = y_of(ARCHIVE_BELOW)
    lines.append(
        f'<line x1="{LEFT}" y1="{threshold:.1f}" x2="{x_of(DAYS):.1f}" y2="{threshold:.1f}" '
        'stroke="#444" stroke-dasharray="6 4"/>'
    )
    lines.append(text(x_of(DAYS) - 4, threshold - 6, f"archived below {ARCHIVE_BELOW}", anchor="end"))
    lines.append(text((LEFT + x_of(DAYS)) / 2, HEIGHT - 14, "days since it was kept or last recalled", anchor="middle"))
    lines.append(text(LEFT, TOP - 14, "retention = exp(-0.1 × hours / S)"))
    return lines


def picture() -> str:
    """The whole picture."""
    body = [*axes(), *(line for strength, colour in CURVES for line in curve(strength, colour))]
    font = 'font-family="system-ui, sans-serif" font-size="13"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {font}>',
            "<title>How recent memory fades</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def main(arguments: list[str]) -> None:
    """Write the picture to the file given."""
    if len(arguments) != 1:
        raise SystemExit("usage: python bench/decay_plot.py FILE.svg")
    file = Path(arguments[0])
    file.write_text(picture(), "utf-8")
    print(f"{file}: {len(picture())} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
