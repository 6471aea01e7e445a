"""How kafkapy and Apache Kafka compact the same directory: both columns and their ratios.

scripts/bench compaction                               1 GB of 1 KiB records with 100,000 keys
scripts/bench compaction --megabytes 100 --keys 10000 --repeat 1
scripts/bench compaction --codec zstd --server kafkapy-fsync --server kafka
scripts/bench compaction --markdown out.md --json out.json

Each server compacts twice: alone, for MB/s and CPU seconds; and while a producer waits for each of its
records to be acknowledged, to compare its p99 with that of an idle server. The servers take turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kafkapy.protocol.records import Compression
from scripts.benchmarks.compaction import PROPERTIES, Subject, write_directory
from scripts.benchmarks.load import Figures
from scripts.benchmarks.options import add_json, add_markdown, add_repeat, parser_of
from scripts.benchmarks.servers import DESCRIPTIONS, new_server
from scripts.benchmarks.table import publish, told

_TITLES = {"compaction": "compacting", "latency": "producing meanwhile"}


def main(options: Sequence[str]) -> int:
    arguments = _arguments(options)
    servers = arguments.server or ["kafkapy-fsync", "kafkapy", "kafka"]
    results: dict[str, dict[str, list[Figures]]] = {load: {name: [] for name in servers} for load in _TITLES}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        codec = Compression[arguments.codec.upper()]
        nbytes = int(arguments.megabytes * 1e6)
        dirty = write_directory(Path(folder, "dirty"), nbytes, arguments.keys, arguments.record_bytes, codec)
        for number in range(arguments.repeat):
            for name in servers if number % 2 == 0 else servers[::-1]:
                subject = Subject(new_server(name, Path(folder, f"{name}-{number}"), PROPERTIES), dirty)
                for load, figures in _measure(subject, arguments.idle).items():
                    results[load][name].append(figures)
                    print(f"{name}: {told(figures, '.3g')}", file=sys.stderr)
    conditions = (
        f"{arguments.megabytes:,.0f} MB of records of {arguments.record_bytes} bytes with {arguments.keys:,} "
        f"keys, codec {arguments.codec}, median of {arguments.repeat}"
    )
    publish(results, _TITLES, servers, conditions, arguments)
    return 0


def _measure(subject: Subject, idle: float) -> dict[str, Figures]:
    """One server, alone and with a producer."""
    measured = {}
    for load, run in (("compaction", subject.compact), ("latency", lambda: subject.probe(idle))):
        subject.prepare()
        try:
            measured[load] = run()
        finally:
            subject.stop()
    return measured


def _arguments(options: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--codec", default="none", choices=[codec.name.lower() for codec in Compression])
    add_repeat(parser)
    parser.add_argument("--idle", type=float, default=10, help="seconds to produce without compaction")
    parser.add_argument("--server", action="append", choices=DESCRIPTIONS)
    parser.add_argument("--folder", type=Path, help="where to put the data, in a temporary folder")
    add_markdown(parser)
    add_json(parser)
    return parser.parse_args(options)
