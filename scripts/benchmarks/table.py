"""From figures to tables: medians, columns by server, ratios to the last column."""

from __future__ import annotations

import platform
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from scripts.benchmarks.load import Figures


def medians(repetitions: Sequence[Figures]) -> Figures:
    return {metric: statistics.median(each[metric] for each in repetitions) for metric in repetitions[0]}


def told(figures: Figures) -> str:
    """All figures in a line."""
    return ", ".join(f"{metric} {value:.4g}" for metric, value in figures.items())


def print_cases(cases: Mapping[str, Callable[[Path], Figures]]) -> None:
    """Run each case in a folder of its own; print a row per figure, a column per case."""
    results = []
    for run in cases.values():
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            results.append(run(Path(folder)))
    print(
        aligned(
            ["", *cases],
            ([metric, *(f"{figures[metric]:,.1f}" for figures in results)] for metric in results[0]),
        )
    )


def aligned(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells as text: the first column to the left, the others to the right."""
    lines = [heads, *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    aligned_lines = []
    for first, *others in lines:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        aligned_lines.append("  ".join(cells))
    return "\n".join(aligned_lines)


def markdown(title: str, by_server: Mapping[str, Figures], servers: Sequence[str]) -> str:
    """The table of one load: a row for each figure, a column for each server.

    Further columns say how many times the last server's figure each is.
    """
    reference, others = servers[-1], servers[:-1]
    heads = [title, *servers, *(f"{other} / {reference}" for other in others)]
    lines = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    for metric in dict.fromkeys(metric for each in by_server.values() for metric in each):
        values = [by_server.get(server, {}).get(metric) for server in servers]
        ratios = [_ratio(value, values[-1]) for value in values[:-1]]
        lines.append(_row([metric, *map(_number, values), *ratios]))
    return "\n".join(lines) + "\n"


def machine() -> str:
    with open("/proc/cpuinfo") as info:
        models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return f"{len(models) or '?'} x {model}, Linux {platform.release()}, Python {platform.python_version()}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _ratio(value: float | None, reference: float | None) -> str:
    return f"{value / reference:.2f}" if value is not None and reference else ""
