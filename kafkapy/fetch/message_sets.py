"""Fetch v0-3: the same pass over the partitions, answered with message sets.

They have magic 0 (v0-1) or magic 1 (v2-3).

File slices are converted (protocol/down_conversion.py) in worker threads, a few requests at a time:
conversion takes some four microseconds per record, and the threads also sync files. A request gets about
`ENOUGH_BYTES`, divided evenly among its partitions, whatever it asks for; its client then asks for more. With
very many partitions it gets more, up to `MOST_BYTES`.

A partition's message set has at most the size of the batches that were read, or of its converted first batch,
so it may end within a message. v0-2 rely on a hard limit: of a batch that is larger than the partition's max
bytes they get that many bytes. Apache Kafka answers with no bytes, and the client asks for ever.

Batches that convert to nothing (transaction markers) are skipped, and the request continues to wait. Apache
Kafka answers with the beginning of a message that does not exist, which clients mistake for one that is too
large.

Source: KafkaApis.handleFetchRequest, LazyDownConversionRecords; KIP-283.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkapy.fetch.read import FetchParts, FetchRead
from kafkapy.fetch.sessions import FetchContext, FetchTarget
from kafkapy.protocol.down_conversion import MessageSet, ZstdBatchError, down_convert
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.legacy_records import MAGIC_0, MAGIC_1
from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kafkapy.replicas.partition import Partition
from kafkapy.storage.disk.files import FileSlice
from kafkapy.storage.log.log_config import LogConfig

FIRST_VERSION_WITH_MAGIC_1: Final = 2
FIRST_VERSION_WITH_SOFT_LIMIT: Final = 3

ENOUGH_BYTES: Final = 4 << 20
"""The bytes of batches that are converted for a request, apart from the minimum for each partition."""
LEAST_BYTES: Final = 64 << 10
"""The minimum bytes for each partition, until they sum up to `MOST_BYTES`."""
MOST_BYTES: Final = 16 << 20


class _Part(NamedTuple):
    """Batches of one partition, to be converted."""

    place: int
    target: FetchTarget
    data: PartitionData
    slice: FileSlice
    end_offset: int


class MessageSetRead(FetchRead):
    """A request of a client that supports only message sets."""

    __slots__ = ("_hard_limit", "_magic", "_share")

    def __init__(
        self,
        broker: FetchParts,
        api_version: int,
        request: FetchRequest,
        fetch: FetchContext,
        may_read: Callable[[str], bool] | None = None,
    ) -> None:
        super().__init__(broker, api_version, request, fetch, may_read)
        self._magic = MAGIC_1 if api_version >= FIRST_VERSION_WITH_MAGIC_1 else MAGIC_0
        self._hard_limit = api_version < FIRST_VERSION_WITH_SOFT_LIMIT
        self._max_bytes = min(self._max_bytes, MOST_BYTES)
        self._share = max(ENOUGH_BYTES // max(len(fetch.targets), 1), LEAST_BYTES)
        # Whole batches fill at least half of a share, if there are as many: waiting would not make it more.
        self.enough_bytes = min(self.enough_bytes, self._share // 2)

    async def answer(self) -> FetchResponse:
        """Read, wait if it is too little, and convert.

        Repeat if nothing is left after the conversion.
        """
        loop, turns = asyncio.get_running_loop(), self._broker.turns
        deadline = loop.time() + self._request.max_wait_ms / 1000
        try:
            while True:
                await self.again()
                left = deadline - loop.time()
                if left > 0 and not self.is_enough and self._fetch.targets:
                    self.release()
                    await self.wait(left)
                if self.nbytes == 0 or await self._convert():
                    return await turns.finish(self.response())
        except BaseException:
            self.release()
            raise

    async def _convert(self) -> bool:
        """Replace batches by message sets.

        Return False if nothing is left of any batch.

        The next pass then reads the partitions after the converted batches.
        """
        parts = []
        for place, (target, data) in enumerate(zip(self._fetch.targets, self.results, strict=True)):
            if data is not None and isinstance(data.records, FileSlice):
                parts.append(_Part(place, target, data, data.records, self.end_offsets[place]))
                data.records = b""
        outcomes = await self._in_thread(parts)
        for part, outcome in zip(parts, outcomes, strict=True):
            if isinstance(outcome, MessageSet):
                part.data.records = bytes(outcome.messages)
                self._count(part.target, outcome.records)
            else:
                code = self._translated(part.target, outcome)
                self.results[part.place] = self._error(part.target, code)
                self.failed = True
        if self.failed or any(part.data.records for part in parts):
            return True
        for part in parts:
            part.target.fetch_offset = part.end_offset
        return False

    def _count(self, target: FetchTarget, records: int) -> None:
        traffic = self._broker.replicas.traffic
        if traffic is not None and target.topic is not None:
            traffic.of(target.topic).fetch_conversions += records

    async def _in_thread(self, parts: list[_Part]) -> list[MessageSet | Exception]:
        """The result for each part; the slices are released even if the client goes away."""
        broker = self._broker
        max_decompressed: int = broker.config["max.decompressed.message.bytes"]

        def convert_all() -> list[MessageSet | Exception]:
            return [self._converted(part, max_decompressed) for part in parts]

        async def convert_and_release() -> list[MessageSet | Exception]:
            try:
                return await broker.blocking(convert_all)
            finally:
                broker.conversions.release()
                release()

        def release() -> None:
            for part in parts:
                part.slice.release()

        try:
            await broker.conversions.acquire()
        except BaseException:
            release()
            raise
        # A thread cannot be stopped, and the files must stay open as long as it reads them.
        return await asyncio.shield(asyncio.ensure_future(convert_and_release()))

    def _converted(self, part: _Part, max_decompressed: int) -> MessageSet | Exception:
        size, target = part.slice.nbytes, part.target
        try:
            converted = down_convert(
                part.slice.read(),
                self._magic,
                target.fetch_offset,
                limit=size,
                max_decompressed=max_decompressed,
            )
        except (DecodeError, OSError, ZstdBatchError) as error:
            return error
        if self._hard_limit and size > target.max_bytes:
            del converted.messages[target.max_bytes :]
        return converted

    def _translated(self, target: FetchTarget, error: Exception) -> ErrorCode:
        if isinstance(error, ZstdBatchError):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        try:
            return self._partition(target).log.translated("reading", error).code
        except KafkaError as gone:
            return gone.code

    def _partition(self, target: FetchTarget) -> Partition:
        if self._request.replica_id >= 0 and (self._may_read is None or self._may_read(target.topic or "")):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Followers need Fetch v4 or later.")
        return super()._partition(target)

    def _limits(self, target: FetchTarget, room: int) -> tuple[int, bool]:
        max_bytes = min(target.max_bytes, room)
        min_one_batch = max_bytes > 0 if self._hard_limit else self.nbytes == 0
        return min(max_bytes, self._share), min_one_batch or self._share < max_bytes

    def _require_format(self, config: LogConfig) -> None:
        if not self._broker.config["log.message.downconversion.enable"]:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        super()._require_format(config)
