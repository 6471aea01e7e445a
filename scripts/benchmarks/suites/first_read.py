"""What checking old records costs when they are first read (log.check.on.first.read).

scripts/bench first-read [--megabytes 256]

It reads a log of closed segments twice after a clean restart, a megabyte at a time, into /dev/null by
sendfile. The figures are CPU time per megabyte, and the longest time that one read held the event loop.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.table import aligned
from tests.loop.turned_clock import TurnedClock
from tests.storage.log_harness import append, batch

_MEGABYTE = 1 << 20
_CONFIG = LogConfig(segment_bytes=64 * _MEGABYTE)
_PARTITION = TopicPartition("bench", 0)


def _opened(folder: Path, *, check: bool) -> tuple[LogManager, PartitionLog]:
    manager = LogManager([folder], defaults=_CONFIG, clock=TurnedClock(), check_on_first_read=check)
    manager.open()
    manager.load("bench", 1)
    return manager, manager.create(_PARTITION, bytes(range(16)), _CONFIG)


def _read_all(log: PartitionLog) -> tuple[float, float]:
    """CPU milliseconds per megabyte, and the longest read in milliseconds of CPU."""
    sink = os.open("/dev/null", os.O_WRONLY)
    nbytes, longest, offset = 0, 0.0, 0
    began = time.process_time()
    while offset < log.log_end_offset:
        before = time.process_time()
        read = log.read(offset, _MEGABYTE, upper_bound=log.log_end_offset)
        longest = max(longest, time.process_time() - before)
        assert read is not None
        os.sendfile(sink, read.slice.fileno, read.slice.position, read.slice.nbytes)
        nbytes, offset = nbytes + read.slice.nbytes, read.end_offset
        read.slice.release()
    took = time.process_time() - began
    os.close(sink)
    return took * 1000 / (nbytes / _MEGABYTE), longest * 1000


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    chosen = parser.parse_args(options)
    rows = []
    for records, size in ((1, 60), (1, 1000), (16, 1000), (64, 1000)):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            manager, log = _opened(Path(folder), check=False)
            data = bytes(batch(*[os.urandom(size) for _ in range(records)]))
            for _ in range(chosen.megabytes * _MEGABYTE // len(data) // (16 if size < 100 else 1)):
                append(log, bytearray(data))
            manager.close()
            for check in (False, True):
                manager, log = _opened(Path(folder), check=check)
                first, longest = _read_all(log)
                log.reader.forget()
                again, _ = _read_all(log)
                manager.close()
                switch = "on" if check else "off"
                rows.append([f"{len(data)}", switch, f"{first:.3f}", f"{longest:.2f}", f"{again:.3f}"])
    print(aligned(["batch", "check", "first ms/MB", "longest ms", "again ms/MB"], rows))
    return 0
