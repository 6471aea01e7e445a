"""From figures to tables: medians, columns by server, ratios to the last column."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scripts.benchmarks.load import Figures
from scripts.benchmarks.servers import DESCRIPTIONS

# load name -> server name -> one Figures per repetition
Results = Mapping[str, Mapping[str, Sequence[Figures]]]


def medians(repetitions: Sequence[Figures]) -> Figures:
    return {metric: statistics.median(each[metric] for each in repetitions) for metric in repetitions[0]}


def publish(
    results: Results,
    titles: Mapping[str, str],
    servers: Sequence[str],
    conditions: str,
    arguments: argparse.Namespace,
    remark: str = "",
    descriptions: Mapping[str, str] = DESCRIPTIONS,
) -> None:
    """Print the table of a comparison, and write what --markdown and --json ask for."""
    date = datetime.date.today().isoformat()
    table = markdown(results, titles, servers, date, conditions, descriptions) + remark
    print(table)
    if arguments.markdown:
        arguments.markdown.write_text(table)
    write_json(as_json(results), arguments)


def write_json(document: object, arguments: argparse.Namespace) -> None:
    """Write it where --json says, if it does."""
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


def told(figures: Figures, spec: str = ".4g") -> str:
    """All figures in a line."""
    return ", ".join(f"{metric} {value:{spec}}" for metric, value in figures.items())


def columns(results: Mapping[str, Figures]) -> str:
    """A row per figure, a column per case."""
    heads = ["", *results]
    metrics = dict.fromkeys(metric for figures in results.values() for metric in figures)
    return aligned(
        heads,
        ([metric, *(f"{figures[metric]:,.1f}" for figures in results.values())] for metric in metrics),
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


def as_json(results: Results) -> dict[str, Any]:
    return {
        "machine": machine(),
        "loads": {
            load: {
                server: {"median": medians(repetitions), "all": list(repetitions)}
                for server, repetitions in servers.items()
            }
            for load, servers in results.items()
        },
    }


def markdown(
    results: Results,
    titles: Mapping[str, str],
    servers: Sequence[str],
    date: str,
    conditions: str,
    descriptions: Mapping[str, str] = DESCRIPTIONS,
) -> str:
    """One table: a row for each figure, a column for each server.

    Further columns say how many times the last server's figure each is. `titles` are those of the loads, by
    name.
    """
    reference, others = servers[-1], servers[:-1]
    lines = [f"Measured {date} on {machine()}; {conditions}. Ratios are to `{reference}`.", ""]
    lines += [f"- `{server}`: {descriptions[server]}" for server in servers]
    heads = ["load", "figure", *servers, *(f"{other} / {reference}" for other in others)]
    lines += ["", _row(heads), _row(["---", "---", *["---:"] * (len(heads) - 2)])]
    for load, by_server in results.items():
        figures = {server: medians(repetitions) for server, repetitions in by_server.items()}
        title = titles[load]
        for metric in dict.fromkeys(metric for each in figures.values() for metric in each):
            values = [figures.get(server, {}).get(metric) for server in servers]
            ratios = [_ratio(value, values[-1]) for value in values[:-1]]
            lines.append(_row([title, metric, *map(_number, values), *ratios]))
            title = ""
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
