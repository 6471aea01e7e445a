"""Small pictures in HTML and SVG, for notebooks and for files that a browser shows.

Everything is in the text itself: no scripts, no fonts, nothing that is fetched. Colours follow the notebook's
theme, or else what the browser prefers. Every text is escaped here, since topics, keys and errors come from
others: callers pass plain texts, and pieces that these functions have made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final, NewType

Html = NewType("Html", str)
"""A piece of a page in which all is escaped."""

_WIDTH: Final = 560
_HEIGHT: Final = 120
_BELOW: Final = 18  # for the times
_DARK: Final = "--ink:#e6e6e6;--soft:#9aa0a6;--rule:#3c4043;--line:#7cb7ff;--good:#69c48b;--bad:#ff8f80"
_STYLE: Final = f"""<style>
.kafkapy{{--ink:#1f2328;--soft:#667085;--rule:#d7dbe0;--line:#1f6feb;--good:#2e8b57;--bad:#c9372c;
color:var(--ink);font:14px/1.45 system-ui,sans-serif;max-width:{_WIDTH + 240}px}}
@media (prefers-color-scheme:dark){{.kafkapy{{{_DARK}}}}}
[data-jp-theme-light="true"] .kafkapy{{--ink:#1f2328;--soft:#667085;--rule:#d7dbe0;--line:#1f6feb;
--good:#2e8b57;--bad:#c9372c}}
[data-jp-theme-light="false"] .kafkapy,.vscode-dark .kafkapy{{{_DARK}}}
.kafkapy h2{{font-size:17px;margin:12px 0 4px}}.kafkapy h3{{font-size:14px;margin:14px 0 4px}}
.kafkapy p{{margin:2px 0}}.kafkapy .soft{{color:var(--soft)}}.kafkapy .bad{{color:var(--bad)}}
.kafkapy .good{{color:var(--good)}}
.kafkapy table{{border-collapse:collapse;margin:4px 0}}
.kafkapy td,.kafkapy th{{text-align:left;padding:2px 14px 2px 0;border-bottom:1px solid var(--rule);
vertical-align:top;overflow-wrap:anywhere}}
.kafkapy .number{{text-align:right;font-variant-numeric:tabular-nums}}
.kafkapy svg{{display:block;max-width:100%}}.kafkapy svg text{{fill:var(--soft);font-size:11px}}
</style>"""
_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>body{{margin:24px}}@media (prefers-color-scheme:dark){{body{{background:#16181b}}}}</style></head>
<body>{content}</body></html>
"""


@dataclass(frozen=True)
class Part:
    """A part of a bar, in any unit; `colour` is line, good, bad, soft or rule."""

    size: float
    colour: str
    told: str


def joined(pieces: Iterable[Html]) -> Html:
    return Html("".join(pieces))


def framed(pieces: Iterable[Html]) -> Html:
    """Pieces as a notebook shows them."""
    return Html(f'<div class="kafkapy">{_STYLE}{"".join(pieces)}</div>')


def page(title: str, pieces: Iterable[Html]) -> str:
    """A whole file."""
    return _PAGE.format(title=escape(title), content="".join(pieces))


def heading(text: str, level: int = 3) -> Html:
    return Html(f"<h{level}>{escape(text)}</h{level}>")


def paragraph(text: str, kind: str = "") -> Html:
    """`kind` is soft, bad, good or nothing."""
    return Html(f'<p class="{kind}">{escape(text)}</p>')


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Whole numbers are grouped and aligned to the right."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return Html(f"<table>{f'<tr>{head}</tr>' if header else ''}{body}</table>")


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"


def line_chart(title: str, points: Sequence[tuple[float, float]]) -> Html:
    """Values over time; a point is (milliseconds since 1970, value)."""
    if len(points) < 2:
        return joined((heading(title), paragraph("too few batches yet", "soft")))
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    top = max(value for _, value in points) or 1.0
    places = " ".join(
        f"{(time - first) / (last - first) * _WIDTH:.1f},{(1 - value / top) * (_HEIGHT - 8) + 4:.1f}"
        for time, value in points
    )
    label = f"{title}: {points[-1][1]:,.0f} at the end, at most {top:,.0f}"
    begun, ended = _moment(first, last - first), _moment(last, last - first)
    return joined(
        (
            heading(title),
            Html(
                f'<svg role="img" aria-label="{escape(label)}" width="{_WIDTH + 90}" '
                f'height="{_HEIGHT + _BELOW}" viewBox="0 0 {_WIDTH + 90} {_HEIGHT + _BELOW}">'
                f"<title>{escape(label)}</title>"
                f'<path d="M0 4H{_WIDTH}M0 {_HEIGHT - 4}H{_WIDTH}" stroke="var(--rule)" fill="none"/>'
                f'<polyline points="{places}" stroke="var(--line)" stroke-width="2" fill="none"/>'
                f'<text x="{_WIDTH + 6}" y="9">{short(top)}</text>'
                f'<text x="{_WIDTH + 6}" y="{_HEIGHT}">0</text>'
                f'<text x="0" y="{_HEIGHT + _BELOW - 4}">{begun}</text>'
                f'<text x="{_WIDTH}" y="{_HEIGHT + _BELOW - 4}" text-anchor="end">{ended}</text></svg>'
            ),
        )
    )


def bars(title: str, rows: Sequence[tuple[str, Sequence[Part]]], *, shared: bool = True) -> Html:
    """A bar for each row, of several parts; `shared` gives all bars one scale."""
    sums = [sum(part.size for part in parts) for _, parts in rows]
    longest = max(sums, default=0) or 1
    lines = []
    for (name, parts), length in zip(rows, sums, strict=True):
        scale = _WIDTH / (longest if shared else length or 1)
        x, drawn = 0.0, []
        for part in parts:
            width = part.size * scale
            if part.size:
                drawn.append(
                    f'<rect x="{x:.1f}" width="{max(width, 1):.1f}" height="14" fill="var(--{part.colour})">'
                    f"<title>{escape(part.told)}</title></rect>"
                )
            x += width
        told = ", ".join(part.told for part in parts if part.size)
        picture = (
            f'<svg role="img" aria-label="{escape(told)}" width="{_WIDTH}" height="14" '
            f'viewBox="0 0 {_WIDTH} 14">{"".join(drawn)}</svg>'
        )
        lines.append(
            f'<tr><td>{escape(name)}</td><td>{picture}<span class="soft">{escape(told)}</span></td></tr>'
        )
    return joined((heading(title), Html(f"<table>{''.join(lines)}</table>")))


def short(value: float) -> str:
    """A number in few characters: 12.3k."""
    if value < 1000:
        return f"{value:.3g}"
    power = min(int(math.log10(value) // 3), 4)
    return f"{value / 1000**power:.3g}{('', 'k', 'M', 'G', 'T')[power]}"


def _moment(milliseconds: float, span: float) -> str:
    form = "%H:%M:%S" if span < 86_400_000 else "%Y-%m-%d %H:%M"
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):{form}} UTC"
