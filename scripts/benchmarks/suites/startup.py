"""How long a broker takes to start after it was killed, and what memory that takes.

scripts/bench startup [--logs 10000] [--gib 1 --files 4] [--record 1024] [--threads 2] [--json FILE]

There are two cases, each with a directory that SIGKILL left, its page cache dropped where that is allowed:

- many logs, one record in each, none of them below a recovery point;
- --gib of records in --files partitions, none of them below a recovery point: all of it is read and checked.

For each it prints the seconds until the broker answers, its largest resident set, and the same for a start
after a clean stop. librdkafka writes the bytes with durability=os; otherwise writing would take most of the
time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.benchmarks.load import Figures
from scripts.benchmarks.meter import Meter
from scripts.benchmarks.options import add_dir, add_json, parser_of
from scripts.benchmarks.partitions import create, produce_to_each, topic_sizes
from scripts.benchmarks.table import columns, write_json
from tests.servers.kafkapy_process import KafkapyProcess

_WRITING = {
    "durability": "os",
    "log.flush.offset.checkpoint.interval.ms": "2000000000",
    "log.cleaner.enable": "false",
}
"""So that nothing counts as flushed."""


def _fill(server: KafkapyProcess, sizes: Mapping[str, int], records: int, record_bytes: int) -> None:
    create(server.bootstrap_servers, sizes)
    acknowledged = produce_to_each(server.bootstrap_servers, sizes, records, record_bytes)
    if acknowledged != records * sum(sizes.values()):
        raise RuntimeError(f"only {acknowledged} records were acknowledged")


def _drop_page_cache() -> bool:
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        return False
    return True


def _start(server: KafkapyProcess, figures: Figures, when: str) -> None:
    begun = time.perf_counter()
    server.start(timeout=1200)
    figures[f"{when}, s"] = time.perf_counter() - begun
    figures[f"{when}, MB at most"] = Meter(server.pid).peak_resident_mb()


def _measure(
    folder: Path, threads: int, sizes: Mapping[str, int], records: int, record_bytes: int
) -> Figures:
    server = KafkapyProcess(folder, properties=_WRITING)
    with server:
        _fill(server, sizes, records, record_bytes)
        server.kill()
    figures: Figures = {"page cache dropped": float(_drop_page_cache())}
    server.properties = {"num.recovery.threads.per.data.dir": str(threads)}
    try:
        _start(server, figures, "after SIGKILL")
        server.stop(timeout=600)
        _start(server, figures, "after a clean stop")
    finally:
        server.stop(timeout=600)
    return figures


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--logs", type=int, default=10_000, help="0 leaves the case out")
    parser.add_argument("--gib", type=float, default=1.0, help="0 leaves the case out")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--record", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=2)
    add_dir(parser)
    add_json(parser)
    arguments = parser.parse_args(options)
    cases: dict[str, tuple[dict[str, int], int, int]] = {}
    if arguments.logs:
        cases[f"{arguments.logs:,} logs"] = topic_sizes(arguments.logs, 1000), 1, 100
    if arguments.gib:
        each = int(arguments.gib * 2**30 / arguments.files / arguments.record)
        sizes = {"large": arguments.files}
        cases[f"{arguments.gib:g} GiB in {arguments.files}"] = sizes, each, arguments.record
    results = {}
    for name, (sizes, records, record_bytes) in cases.items():
        with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.dir) as folder:
            results[name] = _measure(Path(folder), arguments.threads, sizes, records, record_bytes)
    print(columns(results))
    write_json(results, arguments)
    return 0
