"""A topic as a stream of Arrow record batches, as DuckDB, Polars and pandas take it.

Ranges of the log are read ahead in threads, one for each core: decompression and the copying of values leave
the interpreter to other threads. Object stores get more, since their readers mostly wait. So a reader that
stops early has read a few ranges in vain. A range that is much longer than others is not read ahead, but in
pieces while they are taken: a segment without its index files is one range, and may have a gigabyte.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, Final, TypeAlias

import pyarrow as pa

from kafkapy.errors import UserError
from kafkapy.log.arrow_columns import schema
from kafkapy.log.places import local_or_url, open_files, readers_of
from kafkapy.log.plan import plan_batch
from kafkapy.log.position import Position, milliseconds
from kafkapy.log.range_reader import read_range
from kafkapy.log.read_options import Bound, ReadOptions
from kafkapy.log.record_filter import ALL_RECORDS
from kafkapy.log.splits import RANGE_BYTES, OffsetRange
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_AHEAD: Final = 2
"""The ranges that are read ahead for each thread; a range has some 8 MB of the log (splits.py)."""

_LONG: Final = 2 * RANGE_BYTES
"""A range of more bytes of the log is not read ahead."""

_Job: TypeAlias = "Future[list[pa.RecordBatch]] | Iterator[pa.RecordBatch]"

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
    storage_options: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """Return the records of `topic` in a data directory of kafkapy or Apache Kafka.

    The rows of a partition are in the order of their offsets, and the partitions follow one another. The
    columns are those of arrow_columns.py.

    Args:
        directory: the data directory, or all of a broker's log directories: paths, or URLs such as
            s3://bucket/kafkapy-data of copies that no broker writes (store_files.py).
        partitions: the partitions to read; None: all.
        starting: where to start, as in position.py; a time is the first record that is at least as new.
        ending: where to end, exclusive.
        key: only the records with this key.
        isolation: read_committed leaves out aborted records and what follows an open transaction;
            read_uncommitted gives all records.
        headers: whether there is a column for them.
        storage_options: for URLs, what fsspec's file system takes, as in pandas and Polars.

    Raises:
        UserError: there is no such topic or partition, a position is none, a store cannot be reached, or the
            log is damaged. What is damaged is found while the rows are read.
    """
    if isolation not in ("read_committed", "read_uncommitted"):
        raise UserError(f"isolation {isolation!r}: use read_committed or read_uncommitted")
    paths = [directory] if isinstance(directory, str | os.PathLike) else directory
    options = ReadOptions(
        paths=tuple(local_or_url(os.fspath(path)) for path in paths),
        storage_options=dict(storage_options or {}),
        topics=(topic,),
        starting=_bound("starting", topic, starting, EARLIEST),
        ending=_bound("ending", topic, ending, LATEST),
        read_committed=isolation == "read_committed",
        include_headers=headers,
        only=ALL_RECORDS if key is None else ALL_RECORDS.with_keys([key]),
        partitions=None
        if partitions is None
        else frozenset(TopicPartition(topic, each) for each in partitions),
    )
    files = open_files(options)
    ranges = plan_batch(files, options)
    return pa.RecordBatchReader.from_batches(schema(headers=headers), _batches(files, ranges, options))


def _bound(name: str, topic: str, position: Position, default: int) -> Bound:
    if isinstance(position, str) and position in _WORDS:
        return Bound(name, _WORDS[position])
    if isinstance(position, Mapping):
        offsets = {TopicPartition(topic, partition): offset for partition, offset in position.items()}
        return Bound(name, default, offsets=offsets)
    return Bound(name, default, timestamp=milliseconds(name, position))


def _batches(
    files: ReadOnlyFiles, ranges: Sequence[OffsetRange], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Read the ranges in order, and some ahead."""
    threads, rest = readers_of(files), iter(ranges)

    def read(wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        return read_range(files, wanted, headers=options.include_headers, only=options.only)

    with ThreadPoolExecutor(threads, "kafkapy-scan") as pool:
        jobs: deque[_Job] = deque()

        def begin(count: int) -> None:
            for wanted in islice(rest, count):
                if wanted.nbytes > _LONG:
                    jobs.append(read(wanted))
                else:
                    jobs.append(pool.submit(lambda wanted: list(read(wanted)), wanted))

        try:
            begin(threads * _AHEAD)
            while jobs:
                job = jobs.popleft()
                yield from job.result() if isinstance(job, Future) else job
                begin(1)
        finally:
            for job in jobs:
                if isinstance(job, Future):
                    job.cancel()
