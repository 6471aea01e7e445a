"""What partitions cost: memory and open files of each, and stalls of the event loop.

scripts/bench partitions [100 10000 20000] [--idle 12] [--topic-size 1000] [--durability fsync] [--json FILE]

For each number of partitions a broker starts in a new directory. The admin client creates the partitions in
topics of --topic-size, the broker is left idle, and librdkafka produces a record to each partition. Then the
broker starts again, after a clean stop and after SIGKILL. Meanwhile a probe asks for ApiVersions every 2 ms:
the longest wait for an answer is the longest stall. Memory is the growth of the process's resident set over a
broker without partitions.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.benchmarks.load import Figures
from scripts.benchmarks.meter import Meter
from scripts.benchmarks.options import add_dir, add_json, parser_of
from scripts.benchmarks.partitions import create, produce_to_each, topic_sizes
from scripts.benchmarks.probe import probing
from scripts.benchmarks.table import columns, write_json
from tests.servers.kafkapy_process import KafkapyProcess


def _resident_kib(server: KafkapyProcess) -> float:
    return Meter(server.pid).resident_mb() * 1e6 / 1024


def _open_files(server: KafkapyProcess) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def _start(server: KafkapyProcess) -> float:
    begun = time.perf_counter()
    server.start(timeout=600)
    return time.perf_counter() - begun


def _measure(folder: Path, partitions: int, arguments: argparse.Namespace) -> Figures:
    settings = {"durability": arguments.durability, "log.retention.check.interval.ms": "5000"}
    server = KafkapyProcess(folder, properties=settings)
    sizes = topic_sizes(partitions, arguments.topic_size)
    _start(server)
    figures: Figures = {}
    try:
        empty = _resident_kib(server)
        with probing(server.address) as probe:
            begun = time.perf_counter()
            create(server.bootstrap_servers, sizes)
            figures["create, s"] = time.perf_counter() - begun
        figures["stall while creating, ms"] = probe.longest * 1000
        figures["KiB each, created"] = (_resident_kib(server) - empty) / partitions
        server.stop(timeout=120)
        figures["start after clean stop, s"] = _start(server)
        figures["KiB each, loaded and idle"] = (_resident_kib(server) - empty) / partitions
        figures["open files, idle"] = _open_files(server)
        with probing(server.address) as probe:
            time.sleep(arguments.idle)
        figures["stall while idle, ms"] = probe.longest * 1000
        with probing(server.address) as probe:
            begun = time.perf_counter()
            figures["acknowledged"] = produce_to_each(server.bootstrap_servers, sizes, 1, 100)
            figures["produce to each, s"] = time.perf_counter() - begun
        figures["stall while producing, ms"] = probe.longest * 1000
        figures["KiB each, written"] = (_resident_kib(server) - empty) / partitions
        figures["open files, written"] = _open_files(server)
        with probing(server.address) as probe:
            time.sleep(arguments.idle)
        figures["stall while idle, written, ms"] = probe.longest * 1000
        server.kill()
        figures["start after SIGKILL, s"] = _start(server)
        begun = time.perf_counter()
        server.stop(timeout=300)
        figures["stop, s"] = time.perf_counter() - begun
    finally:
        server.stop()
    return figures


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("partitions", nargs="*", type=int, default=[100, 10_000, 20_000])
    parser.add_argument("--idle", type=float, default=12.0, metavar="SECONDS")
    parser.add_argument("--topic-size", type=int, default=1000)
    parser.add_argument("--durability", choices=("fsync", "os"), default="fsync")
    add_dir(parser)
    add_json(parser)
    arguments = parser.parse_args(options)
    results = {}
    for partitions in arguments.partitions:
        with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.dir) as folder:
            results[f"{partitions:,}"] = _measure(Path(folder), partitions, arguments)
    print(columns(results))
    write_json(results, arguments)
    return 0
