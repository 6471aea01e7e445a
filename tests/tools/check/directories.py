"""Data directories to damage: logs with several segments and all kinds of batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.records import Compression, Record, build_batch
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.validate import AppendOrigin
from kafkapy.tools.check.check import Check, Summary
from kafkapy.tools.check.finding import Finding, Severity
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import TP, Logs, append, batch

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=300, segment_index_bytes=1024)
_PRODUCER = 9


def fill(logs: Logs, count: int = 40, *, first_epoch: int = 0) -> None:
    """Append batches of all codecs in several leader epochs, and transactions."""
    log = logs.log
    for number in range(count):
        epoch = first_epoch + number // 12
        codec = list(Compression)[number % len(Compression)]
        values = [b"value %d " % number * (20 + number % 5) for _ in range(1 + number % 4)]
        append(log, batch(*values, timestamp=START_MS + number * 10, compression=codec), leader_epoch=epoch)
        if number % 8 == 3:
            _write_transaction(logs, number, epoch, aborted=number % 16 == 3)
    log.advance_high_watermark(log.log_end_offset)


def _write_transaction(logs: Logs, number: int, epoch: int, *, aborted: bool) -> None:
    log = logs.log
    time = START_MS + number * 10 + 1
    entry = log.producers.get(_PRODUCER)
    sequence = 0 if entry is None else entry.last_sequence + 1
    data = batch(
        *[b"in a transaction"] * 3,
        timestamp=time,
        producer_id=_PRODUCER,
        epoch=0,
        sequence=sequence,
        transactional=True,
    )
    append(log, data, leader_epoch=epoch)
    kind = ControlType.ABORT if aborted else ControlType.COMMIT
    record = Record(timestamp=time, key=control_record_key(kind), value=end_txn_marker_value(0))
    marker = build_batch([record], producer_id=_PRODUCER, producer_epoch=0, transactional=True, control=True)
    append(log, marker, leader_epoch=epoch, origin=AppendOrigin.COORDINATOR)


def stopped(root: Path) -> Path:
    """Make a data directory whose broker stopped cleanly; return the partition's directory."""
    logs = Logs(root, config=CONFIG)
    fill(logs)
    logs.stop()
    return logs.path


def killed(root: Path, *, flushed: bool = True) -> Path:
    """Make one whose broker was killed after a flush, or without any flush."""
    logs = Logs(root, config=CONFIG)
    fill(logs)
    if flushed:
        logs.log.flush()
        logs.save_recovery_points()
        logs.manager.checkpoint_high_watermarks()()
    logs.crash()
    return logs.path


def left(root: Path, how: str) -> Path:
    """Make a data directory whose broker was `stopped`, or killed with or without a flush."""
    return stopped(root) if how == "stopped" else killed(root, flushed=how == "flushed")


def checked(*paths: Path, deep: bool = True) -> tuple[list[Finding], Summary]:
    check = Check(map(str, paths), deep=deep)
    return list(check.run(lambda _: None)), check.summary


def findings(*paths: Path, deep: bool = True) -> list[Finding]:
    return checked(*paths, deep=deep)[0]


def severities(found: Iterable[Finding]) -> set[Severity]:
    return {finding.severity for finding in found}


def fingerprint(path: Path) -> dict[str, tuple[int, str]]:
    """Return the time of change and the content of every file below `path`."""
    return {
        str(each): (each.stat().st_mtime_ns, hashlib.sha256(each.read_bytes()).hexdigest())
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }


def files(path: Path, suffix: str) -> list[Path]:
    """The files of a partition with a suffix, in offset order."""
    return sorted(path.glob(f"*{suffix}"))


def flip(path: Path, position: int, mask: int = 0x01) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def partition_line(offset: int) -> str:
    return f"0\n1\n{TP.topic} {TP.partition} {offset}\n"
