"""From figures to a table: medians, columns by server, ratios to the last column."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.benchmarks.load import Figures
from scripts.benchmarks.servers import DESCRIPTIONS

# load name -> server name -> one Figures per repetition
Results = Mapping[str, Mapping[str, Sequence[Figures]]]


def medians(repetitions: Sequence[Figures]) -> Figures:
    return {metric: statistics.median(each[metric] for each in repetitions) for metric in repetitions[0]}


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
    results: Results, titles: Mapping[str, str], servers: Sequence[str], date: str, conditions: str
) -> str:
    """One table: a row per figure, a column per server, how many times the last column's figure each is.

    `titles` are those of the loads, by name.
    """
    reference, others = servers[-1], servers[:-1]
    lines = [f"Measured {date} on {machine()}; {conditions}. Ratios are to `{reference}`.", ""]
    lines += [f"- `{server}`: {DESCRIPTIONS[server]}" for server in servers]
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
