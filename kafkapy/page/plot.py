"""A line over time as SVG: its shapes have classes, and the style sheet has their colours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 120
_MARGIN: Final = 6


@dataclass(frozen=True)
class Plot:
    """A line's places, and its texts."""

    points: str
    top: str
    begun: str
    ended: str
    label: str


def line(points: Sequence[tuple[float, float]], name: str = "Lag") -> Plot | None:
    """The line of (milliseconds since 1970, value); None if there are too few."""
    if len(points) < 2:
        return None
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    top = max(value for _, value in points) or 1.0
    places = " ".join(
        f"{(at - first) / (last - first) * WIDTH:.1f},"
        f"{_MARGIN + (1 - value / top) * (HEIGHT - 2 * _MARGIN):.1f}"
        for at, value in points
    )
    label = (
        f"{name} from {_moment(first)} to {_moment(last)}: {_number(points[-1][1])} at the end, "
        f"at most {_number(max(value for _, value in points))}"
    )
    return Plot(places, _number(top), _moment(first), _moment(last), label)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _moment(milliseconds: float) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(milliseconds / 1000))
