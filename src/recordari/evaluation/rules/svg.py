"""A plain SVG drawing with axes, for the pictures in the docs; the same figures always give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLOURS = ("#b3261e", "#7d5fb2", "#2f6f8f", "#1b7f4d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where a graph stands in the picture, and which figures its edges have; y grows upward."""

    left: float
    top: float
    width: float
    height: float
    most_x: float
    most_y: float

    def x(self, figure: float) -> float:
        """Where a figure stands from the left."""
        return self.left + self.width * figure / self.most_x

    def y(self, figure: float) -> float:
        """Where a figure stands from the top."""
        return self.top + self.height * (1 - figure / self.most_y)

    def axes(self, xs: Sequence[float], ys: Sequence[float], *, title: str, below: str) -> list[str]:
        """Grid lines with their figures, what is shown, and what is counted below it."""
        right, bottom = self.left + self.width, self.top + self.height
        lines = [text(self.left, self.top - 14, title)]
        for figure in ys:
            lines.append(line(self.left, self.y(figure), right, self.y(figure), stroke="#e4e4e4"))
            lines.append(text(self.left - 8, self.y(figure) + 4, f"{figure:g}", anchor="end"))
        lines.extend(text(self.x(figure), bottom + 20, f"{figure:g}", anchor="middle") for figure in xs)
        lines.append(text((self.left + right) / 2, bottom + 44, below, anchor="middle"))
        return lines

    def curve(self, points: Iterable[tuple[float, float]], colour: str) -> str:
        """A line through points."""
        drawn = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2.5"/>'


def text(x: float, y: float, said: str, *, anchor: str = "start", fill: str = "#333") -> str:
    """A word in the picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(said)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str, dashed: bool = False) -> str:
    """A straight line."""
    dashes = ' stroke-dasharray="6 4"' if dashed else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"{dashes}/>'


def picture(width: int, height: int, title: str, body: Sequence[str]) -> str:
    """The whole file."""
    font = 'font-family="system-ui, sans-serif" font-size="13"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {font}>',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *body,
            "</svg>",
            "",
        ]
    )
