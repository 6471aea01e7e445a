"""How long a broker takes to start after it was killed, and what memory that takes.

scripts/bench startup [--logs 10000] [--gib 1]

There are two cases, each with a directory that SIGKILL left, its page cache dropped where that is allowed:

- many logs, one record in each, none of them below a recovery point;
- --gib of records in four partitions, none of them below a recovery point: all of it is read and checked.

For each it prints the seconds until the broker answers, its largest resident set, and the same for a start
after a clean stop. librdkafka writes the bytes with durability=os; otherwise writing would take most of the
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.load import Figures
from scripts.benchmarks.many_partitions import create, produce_to_each, topic_sizes
from scripts.benchmarks.meter import Meter
from scripts.benchmarks.table import print_cases
from tests.servers.kafkapy_process import KafkapyProcess

_WRITING: Final = {
    "durability": "os",
    "log.flush.offset.checkpoint.interval.ms": "2000000000",
    "log.cleaner.enable": "false",
}
"""So that nothing counts as flushed."""
_LARGE: Final = {"large": 4}
_LARGE_RECORD_BYTES: Final = 1024


def _measure(sizes: Mapping[str, int], records: int, record_bytes: int, folder: Path) -> Figures:
    server = KafkapyProcess(folder, properties=_WRITING)
    with server:
        create(server.bootstrap_servers, sizes)
        produce_to_each(server.bootstrap_servers, sizes, records, record_bytes)
        server.kill()
    figures: Figures = {"page cache dropped": float(_drop_page_cache())}
    server.properties = {}
    with server.killed_at_end():
        for when in ("SIGKILL", "a clean stop"):
            begun = time.perf_counter()
            server.start(timeout=1200)
            figures[f"after {when}, s"] = time.perf_counter() - begun
            figures[f"after {when}, MB at most"] = Meter(server.pid).peak_resident_mb()
            server.stop(timeout=600)
    return figures


def _drop_page_cache() -> bool:
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        return False
    return True


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--logs", type=int, default=10_000, help="0 leaves the case out")
    parser.add_argument("--gib", type=float, default=1.0, help="0 leaves the case out")
    arguments = parser.parse_args(options)
    cases: dict[str, Callable[[Path], Figures]] = {}
    if arguments.logs:
        cases[f"{arguments.logs:,} logs"] = partial(_measure, topic_sizes(arguments.logs, 1000), 1, 100)
    if arguments.gib:
        records = int(arguments.gib * 2**30 / _LARGE["large"] / _LARGE_RECORD_BYTES)
        cases[f"{arguments.gib:g} GiB"] = partial(_measure, _LARGE, records, _LARGE_RECORD_BYTES)
    print_cases(cases)
    return 0
