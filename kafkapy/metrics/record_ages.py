"""When the first record was written that a group has not committed yet.

Its age is the group's lag in seconds: for how long the newest record that the group has not read has waited.
The batch that holds the record is found by the offset index, and its header has the time. A batch is looked
up once: while the group stands still, so does the time.

Only what is in the page cache is read. A thread loads the rest, a few headers for each scrape; their lags
appear in the next one.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafkapy.loop.cold_reads import ColdReads
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.records import HEADER_SIZE, NO_TIMESTAMP, read_header
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.partition import Partition
from kafkapy.storage.disk.errors import NotReadyError
from kafkapy.storage.disk.files import FileSystem

LOADED_AT_ONCE: Final = 64
"""The most headers that are loaded from the disk for one scrape."""


class RecordAges:
    """The times of records by offset; they belong to the event loop."""

    def __init__(self, files: FileSystem, cold_reads: ColdReads) -> None:
        self._files = files
        self._cold_reads = cold_reads
        self._known: dict[TopicPartition, dict[int, int]] = {}
        """The times that the last scrape asked for, in milliseconds since 1970."""
        self._asked: dict[TopicPartition, dict[int, int]] = {}
        """Those that this scrape has asked for."""
        self._missing: list[NotReadyError] = []
        self._loading: asyncio.Task[object] | None = None

    def begin(self) -> None:
        """Begin a scrape: keep what the last one asked for, and nothing else."""
        self._known, self._asked = self._asked, {}

    def end(self) -> None:
        """End a scrape: load what was not in the page cache."""
        missing, self._missing = self._missing, []
        if self._loading is None or self._loading.done():
            if missing:
                self._loading = asyncio.ensure_future(self._cold_reads.provide_all(missing))
        else:
            for each in missing:
                each.release()

    async def stop(self) -> None:
        """Wait for what is being loaded."""
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)

    def written_ms(self, partition: Partition, offset: int) -> int | None:
        """When the record at `offset`, or the first one after it, was written.

        None if that is not known.
        """
        key = partition.topic_partition
        found = self._known.get(key, _NOTHING).get(offset)
        if found is None:
            found = self._read(partition, offset)
        if found is not None:
            self._asked.setdefault(key, {})[offset] = found
        return found

    def _read(self, partition: Partition, offset: int) -> int | None:
        log = partition.log
        offset = max(offset, log.log_start_offset)
        try:
            with self._files.cached_only():
                read = log.read(offset, HEADER_SIZE, upper_bound=log.high_watermark)
                if read is None:
                    return None
                try:
                    data = self._files.read_at(read.slice.file, HEADER_SIZE, read.slice.position)
                finally:
                    read.slice.release()
        except NotReadyError as missing:
            self._load(missing.with_traceback(None))
            return None
        except (KafkaError, OSError):  # the log is damaged there, or its disk failed
            return None
        if len(data) < HEADER_SIZE:
            return None
        written = read_header(data).base_timestamp
        return None if written == NO_TIMESTAMP else written

    def _load(self, missing: NotReadyError) -> None:
        if len(self._missing) < LOADED_AT_ONCE:
            self._missing.append(missing)
        else:
            missing.release()


_NOTHING: Final[dict[int, int]] = {}
