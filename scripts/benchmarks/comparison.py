"""What suites have in common that run loads on one server after the other."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from scripts.benchmarks.load import Figures, Size
from scripts.benchmarks.options import Titled, add_json, add_loads, add_markdown, add_repeat, parser_of
from scripts.benchmarks.servers import FAILURES
from scripts.benchmarks.table import medians, publish, told

Measure = Callable[[str, str, Size], list[Figures]]
"""Runs the load of a name on the server of a name; the figures of each repetition."""


def comparison_arguments(
    module: str,
    doc: str | None,
    options: Sequence[str],
    loads: Mapping[str, Titled],
    descriptions: Mapping[str, str],
) -> argparse.Namespace:
    parser = parser_of(module, doc)
    add_loads(parser, loads)
    names = "; ".join(f"{name}: {text}" for name, text in descriptions.items())
    parser.add_argument("--server", action="append", choices=descriptions, metavar="NAME", help=names)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the loads, 1 by default")
    parser.add_argument(
        "--warm-up",
        type=float,
        default=0,
        metavar="SECONDS",
        help="repeat each load for so long before it counts (default: a fifth of one repetition)",
    )
    add_repeat(parser)
    add_json(parser)
    add_markdown(parser)
    return parser.parse_args(options)


def compare(
    arguments: argparse.Namespace,
    measure: Measure,
    loads: Sequence[str],
    servers: Sequence[str],
    titles: Mapping[str, Titled],
    descriptions: Mapping[str, str],
) -> int:
    """Run these loads on these servers and print the table; 1 if one of them failed."""
    size = Size(arguments.scale, arguments.repeat, arguments.warm_up)
    results: dict[str, dict[str, list[Figures]]] = {}
    for name in loads:
        for server in servers:
            start = time.monotonic()
            try:
                measured = measure(name, server, size)
            except FAILURES as problem:
                print(f"{name} on {server} failed: {problem}", file=sys.stderr)
                continue
            results.setdefault(name, {})[server] = measured
            seconds = time.monotonic() - start
            print(f"{name} on {server} ({seconds:.0f} s): {told(medians(measured))}", file=sys.stderr)
    conditions = f"scale {size.scale:g}, median of {size.repetitions}"
    if size.warm_up_seconds:
        conditions += f" after {size.warm_up_seconds:g} s of the load"
    publish(
        results,
        {name: load.title for name, load in titles.items()},
        servers,
        conditions,
        arguments,
        descriptions=descriptions,
    )
    return 0 if sum(map(len, results.values())) == len(loads) * len(servers) else 1
