"""kafkapy and Apache Kafka under the same loads, in turn: both columns and their ratios.

scripts/bench broker                                   all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench broker --load stream-1k --load sync --scale 0.3                          some loads, smaller
scripts/bench broker --server kafkapy-fsync --server kafka --markdown out.md --json out.json
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.benchmarks.load import Figures, Load, Target
from scripts.benchmarks.loads import LOADS
from scripts.benchmarks.options import add_json, add_loads, add_markdown, add_repeat, parser_of
from scripts.benchmarks.servers import DESCRIPTIONS, FAILURES, new_server
from scripts.benchmarks.table import medians, publish, told


def main(options: Sequence[str]) -> int:
    arguments = _arguments(options)
    servers: list[str] = arguments.server or ["kafkapy", "kafka"]
    results: dict[str, dict[str, list[Figures]]] = {}
    for name in arguments.load or LOADS:
        for server in servers:
            start = time.monotonic()
            try:
                measured = _measure(name, server, arguments.scale, arguments.repeat)
            except FAILURES as problem:
                print(f"{name} on {server} failed: {problem}", file=sys.stderr)
                continue
            results.setdefault(name, {})[server] = measured
            seconds = time.monotonic() - start
            print(f"{name} on {server} ({seconds:.0f} s): {told(medians(measured))}", file=sys.stderr)
    conditions = f"scale {arguments.scale:g}, median of {arguments.repeat}"
    titles = {name: load.title for name, load in LOADS.items()}
    publish(results, titles, servers, conditions, arguments)
    expected = len(arguments.load or LOADS) * len(servers)
    return 0 if sum(map(len, results.values())) == expected else 1


def _measure(name: str, server: str, scale: float, repetitions: int) -> list[Figures]:
    """One load on one server, started for it alone."""
    load = LOADS[name]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if not isinstance(load, Load):
            return [load.run(server, Path(folder, str(n))) for n in range(repetitions)]
        with new_server(server, Path(folder)) as process:
            target = Target(process)
            load.run(target, scale * load.warm_up)
            return [load.run(target, scale) for _ in range(repetitions)]


def _arguments(options: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__, __doc__)
    add_loads(parser, LOADS)
    names = "; ".join(f"{name}: {text}" for name, text in DESCRIPTIONS.items())
    parser.add_argument("--server", action="append", choices=DESCRIPTIONS, metavar="NAME", help=names)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the loads, 1 by default")
    add_repeat(parser)
    add_json(parser)
    add_markdown(parser)
    return parser.parse_args(options)
