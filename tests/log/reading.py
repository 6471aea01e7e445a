"""Logs written by the storage layer and read back from their files, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from kafkapy.log import scan
from kafkapy.log.plan import plan_batch
from kafkapy.log.range_reader import read_range
from kafkapy.log.read_options import ReadOptions
from kafkapy.log.splits import OffsetRange
from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.records import Record, build_batch
from kafkapy.spark.log_source.spark_options import parse_options
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import TP, Logs, append, batch

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Offset, timestamp in milliseconds, key, value, headers."""

FILES = ReadOnlyFiles()


def options(logs: Logs, **given: str) -> ReadOptions:
    path = ",".join(str(logs.root / name) for name in logs.dirs)
    return parse_options({"path": path, "topics": TP.topic, **given}, stream=False)


def plan(logs: Logs, files: ReadOnlyFiles = FILES, /, **given: str) -> list[OffsetRange]:
    """Return the ranges that would be read."""
    return plan_batch(files, options(logs, **given))


def plan_in_pieces(logs: Logs, range_bytes: int, **given: str) -> list[OffsetRange]:
    """Return the ranges of about so many bytes that would be read."""
    return plan_batch(FILES, replace(options(logs, **given), range_bytes=range_bytes))


def read(ranges: Iterable[OffsetRange], *, fail_on_data_loss: bool = True) -> Iterator[pa.RecordBatch]:
    for wanted in ranges:
        yield from read_range(FILES, wanted, headers=True, fail_on_data_loss=fail_on_data_loss)


def rows(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    found: list[Row] = []
    for each in batches:
        assert each.num_rows
        times = each.column("timestamp").cast(pa.int64()).to_pylist()
        for row, time in zip(each.drop_columns("timestamp").to_pylist(), times, strict=True):
            assert (row["topic"], row["partition"]) == TP
            headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
            found.append((row["offset"], time // 1000, row["key"], row["value"], headers))
    return found


def contents(logs: Logs, **given: str) -> list[Row]:
    """Return the records of TP that a reader with these options gets."""
    return rows(read(plan(logs, **given)))


def offsets(logs: Logs, **given: str) -> list[int]:
    return [row[0] for row in contents(logs, **given)]


def rows_of(records: Iterable[Record]) -> list[Row]:
    """Records as the rows that they should become."""
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder, with the times of its last change."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_mode, _content(path))
        for path in sorted(folder.rglob("*"))
    }


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


class Transactions:
    """Producers that write to a log in transactions, as clients and a coordinator would."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def write(self, producer_id: int, *values: bytes) -> None:
        """Records of the producer's transaction; the first ones open it."""
        self.open.add(producer_id)
        sequence = self._sequences.get(producer_id, 0)
        data = batch(*values, producer_id=producer_id, epoch=0, sequence=sequence, transactional=True)
        append(self.log, data)
        self._sequences[producer_id] = sequence + len(values)
        self._show()

    def plain(self, *values: bytes) -> None:
        """Append records without a transaction."""
        append(self.log, batch(*values))
        self._show()

    def end(self, producer_id: int, *, abort: bool) -> None:
        """The marker that ends the producer's transaction."""
        kind = ControlType.ABORT if abort else ControlType.COMMIT
        record = Record(
            timestamp=START_MS, key=control_record_key(kind), value=end_txn_marker_value(coordinator_epoch=0)
        )
        marker = build_batch(
            [record], producer_id=producer_id, producer_epoch=0, transactional=True, control=True
        )
        append(self.log, marker, origin=AppendOrigin.COORDINATOR)
        self.open.discard(producer_id)
        self._show()

    def _show(self) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)


def write_aborted_and_others(log: PartitionLog) -> None:
    """Value 1 is aborted, 2 committed, and 3 of a transaction that is open."""
    transactions = Transactions(log)
    transactions.write(1, b"1")
    transactions.write(2, b"2")
    transactions.end(1, abort=True)
    transactions.end(2, abort=False)
    transactions.write(3, b"3")


def numbers_scanned(places: Sequence[str | Path], isolation: str) -> list[int]:
    """The values of TP's topic in directories or stores, which are numbers."""
    table = scan(places, TP.topic, isolation=isolation).read_all()
    return [int(each) for each in table.column("value").to_pylist()]
