"""A topic as a stream of Arrow record batches, as DuckDB, Polars and pandas take it.

Ranges of the log are read ahead in threads, some for each core: decompression and the copying of values leave
the interpreter to other threads. So a reader that stops early has read a few ranges in vain.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkapy.errors import UserError
from kafkapy.log.arrow_columns import schema
from kafkapy.log.plan import plan_batch
from kafkapy.log.position import Position, milliseconds
from kafkapy.log.range_reader import read_range
from kafkapy.log.read_options import Bound, ReadOptions
from kafkapy.log.splits import OffsetRange
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_AHEAD: Final = 2
"""The ranges that are read ahead for each core; a range has some 8 MB of the log (splits.py)."""

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


def scan(
    directory: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    topic: str,
    *,
    partitions: Collection[int] | None = None,
    starting: Position = "earliest",
    ending: Position = "latest",
    key: bytes | None = None,
    isolation: str = "read_committed",
    headers: bool = True,
) -> pa.RecordBatchReader:
    """Return the records of `topic` in a data directory of kafkapy or Apache Kafka.

    The rows of a partition are in the order of their offsets, and the partitions follow one another. The
    columns are those of arrow_columns.py.

    Args:
        directory: the data directory, or all of a broker's log directories.
        partitions: the partitions to read; None: all.
        starting: where to start, as in position.py; a time is the first record that is at least as new.
        ending: where to end, exclusive.
        key: only the records with this key.
        isolation: read_committed leaves out aborted records and what follows an open transaction;
            read_uncommitted gives all records.
        headers: whether there is a column for them.

    Raises:
        UserError: there is no such topic or partition, a position is none, or the log is damaged. What is
            damaged is found while the rows are read.
    """
    if isolation not in ("read_committed", "read_uncommitted"):
        raise UserError(f"isolation {isolation!r}: use read_committed or read_uncommitted")
    paths = [directory] if isinstance(directory, str | os.PathLike) else directory
    options = ReadOptions(
        paths=tuple(os.fspath(path) for path in paths),
        topics=(topic,),
        starting=_bound("starting", topic, starting, EARLIEST),
        ending=_bound("ending", topic, ending, LATEST),
        read_committed=isolation == "read_committed",
        include_headers=headers,
        partitions=None
        if partitions is None
        else frozenset(TopicPartition(topic, each) for each in partitions),
    )
    ranges = plan_batch(ReadOnlyFiles(), options)
    return pa.RecordBatchReader.from_batches(schema(headers=headers), _batches(ranges, headers, key))


def _bound(name: str, topic: str, position: Position, default: int) -> Bound:
    if isinstance(position, str) and position in _WORDS:
        return Bound(name, _WORDS[position])
    if isinstance(position, Mapping):
        offsets = {TopicPartition(topic, partition): offset for partition, offset in position.items()}
        return Bound(name, default, offsets=offsets)
    return Bound(name, default, timestamp=milliseconds(name, position))


def _batches(ranges: Sequence[OffsetRange], headers: bool, key: bytes | None) -> Iterator[pa.RecordBatch]:
    """Read the ranges in order, and some ahead."""
    cores, rest = os.cpu_count() or 1, iter(ranges)
    with ThreadPoolExecutor(cores, "kafkapy-scan") as pool:
        jobs: deque[Future[list[pa.RecordBatch]]] = deque()
        try:
            for wanted in islice(rest, cores * _AHEAD):
                jobs.append(pool.submit(_read, wanted, headers, key))
            while jobs:
                yield from jobs.popleft().result()
                for wanted in islice(rest, 1):
                    jobs.append(pool.submit(_read, wanted, headers, key))
        finally:
            for job in jobs:
                job.cancel()


def _read(wanted: OffsetRange, headers: bool, key: bytes | None) -> list[pa.RecordBatch]:
    batches = read_range(ReadOnlyFiles(), wanted, headers=headers)
    if key is None:
        return list(batches)
    found = (batch.filter(pc.equal(batch.column("key"), pa.scalar(key))) for batch in batches)
    return [batch for batch in found if batch.num_rows]
