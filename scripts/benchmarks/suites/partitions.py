"""What partitions cost: memory and open files of each, and stalls of the event loop.

scripts/bench partitions [100 10000 20000]

For each number of partitions a broker starts in a new directory. The admin client creates the partitions in
topics of 1,000, the broker is left idle, and librdkafka produces a record to each partition. Then the broker
starts again, after a clean stop and after SIGKILL. Meanwhile a probe asks for ApiVersions every 2 ms: the
longest wait for an answer is the longest stall. Memory is the growth of the process's resident set over a
broker without partitions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.load import Figures
from scripts.benchmarks.many_partitions import create, produce_to_each, topic_sizes
from scripts.benchmarks.meter import Meter
from scripts.benchmarks.probe import probing
from scripts.benchmarks.servers import new_server
from scripts.benchmarks.table import print_cases

_TOPIC_SIZE: Final = 1000
_IDLE_SECONDS: Final = 12


def _measure(partitions: int, folder: Path) -> Figures:
    server = new_server("kafkapy-fsync", folder, {"log.retention.check.interval.ms": "5000"})
    sizes = topic_sizes(partitions, _TOPIC_SIZE)
    figures: Figures = {}

    def timed(label: str, work: Callable[[], object]) -> None:
        begun = time.perf_counter()
        work()
        figures[f"{label}, s"] = time.perf_counter() - begun

    def probed(label: str, work: Callable[[], object]) -> None:
        with probing(server.address) as times:
            timed(label, work)
        figures[f"stall while {label}, ms"] = max(times) * 1000

    def weigh(when: str) -> None:
        figures[f"KiB each, {when}"] = (Meter(server.pid).resident_mb() - empty) * 1e6 / 1024 / partitions
        figures[f"open files, {when}"] = len(os.listdir(f"/proc/{server.pid}/fd"))

    with server:
        empty = Meter(server.pid).resident_mb()
        probed("creating", lambda: create(server.bootstrap_servers, sizes))
        server.stop(timeout=120)
        timed("start after a clean stop", lambda: server.start(timeout=600))
        weigh("idle")
        probed("idle", lambda: time.sleep(_IDLE_SECONDS))
        probed("producing", lambda: produce_to_each(server.bootstrap_servers, sizes, 1, 100))
        weigh("written")
        probed("idle, written", lambda: time.sleep(_IDLE_SECONDS))
        server.kill()
        timed("start after SIGKILL", lambda: server.start(timeout=600))
        timed("stop", lambda: server.stop(timeout=300))
    return figures


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("partitions", nargs="*", type=int, default=[100, 10_000, 20_000])
    partitions = parser.parse_args(options).partitions
    print_cases({f"{count:,}": partial(_measure, count) for count in partitions})
    return 0
