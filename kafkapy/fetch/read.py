"""One fetch request's pass over its partitions: what each has to answer.

A pass reads the log no further than the request's limits let it, and can be repeated: a request that waits
for more bytes lets go of what it has read and reads again when there is news. A consumer may have thousands
of partitions, of which few have news: one that was read to its end is not looked at again before it has
changed, be that by the next pass or, in a session, by the next request. A pass takes turns with the work of
others.

An answer keeps the files of its slices open until it is sent. So it has slices of so many files only; the
other partitions have their turn with the next fetch, as when max bytes is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from kafkapy.configs.config import BrokerConfig
from kafkapy.fetch.sessions import NO_SUCH_PARTITION, FetchContext, FetchSessionCache, FetchTarget
from kafkapy.process.turns import Steps, Turns
from kafkapy.process.waiters import Waiters
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkapy.protocol.types import ZERO_UUID, Uuid
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.files import FileSlice
from kafkapy.storage.log.log_config import LogConfig

P = ParamSpec("P")
T = TypeVar("T")

READ_COMMITTED = 1
FIRST_VERSION_WITH_STORAGE_ERROR = 6
FIRST_VERSION_WITH_ZSTD = 10

_ANSWERED_WITHOUT_A_READ = NO_SUCH_PARTITION | {ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
"""Kafka answers these by themselves, with an empty list of aborted transactions in place of null."""


class FetchParts(Protocol):
    """The parts of a broker that fetches need."""

    config: BrokerConfig
    logs: LogManager
    replicas: ReplicaManager
    waiters: Waiters
    turns: Turns
    fetch_sessions: FetchSessionCache
    conversions: asyncio.Semaphore
    """Taken by requests that keep a worker thread busy with converting records of other formats."""

    async def blocking(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in a worker thread."""


class FetchRead:
    """The partitions of a fetch request, and what was read of each in the last pass."""

    __slots__ = (
        "_api_version",
        "_broker",
        "_fetch",
        "_in_session",
        "_max_bytes",
        "_max_files",
        "_read_committed",
        "_request",
        "end_offsets",
        "enough_bytes",
        "failed",
        "files",
        "nbytes",
        "results",
        "sizes",
    )

    def __init__(
        self, broker: FetchParts, api_version: int, request: FetchRequest, fetch: FetchContext
    ) -> None:
        self._broker = broker
        self._api_version = api_version
        self._request = request
        self._fetch = fetch
        self._max_bytes: int = min(request.max_bytes, broker.config["fetch.max.bytes"])
        self._max_files = broker.logs.files.open_files.per_answer
        self._read_committed = request.isolation_level == READ_COMMITTED
        self.enough_bytes = min(request.min_bytes, self._max_bytes)
        """With so many bytes the client is answered at once."""
        self._in_session = fetch.session is not None
        """Partitions without news are left out of the answer."""
        self.results: list[PartitionData | None] = []
        """What each partition answers; None for one of a session that has no news."""
        self.sizes: list[int] = []
        self.end_offsets: list[int] = []
        """The offset after what was read of each partition, -1 where that is nothing."""
        self.nbytes = 0
        self.files = 0
        """Slices that were read: each may keep a file open."""
        self.failed = False
        """Some partition answers with an error or a diverging epoch: the client must hear at once."""

    def run(self) -> Steps[None]:
        """Read every partition that may have changed since the last pass, in the session's order."""
        targets, before = self._fetch.targets, self.results
        if not before:
            before = [None] * len(targets)
        self.results, self.sizes, self.end_offsets = [], [], []
        self.nbytes, self.files, self.failed = 0, 0, False
        for target, last in zip(targets, before, strict=True):
            yield
            end_offset = -1
            if target.is_unchanged if last is not None else self._in_session and target.is_known:
                data = last
            else:
                data, end_offset = self._read_or_fail(target)
            size = 0
            if data is not None and isinstance(data.records, FileSlice):
                size = data.records.nbytes
                self.files += 1
            self.results.append(data)
            self.sizes.append(size)
            self.end_offsets.append(end_offset)
            self.nbytes += size

    def _read_or_fail(self, target: FetchTarget) -> tuple[PartitionData, int]:
        try:
            return self._read(target)
        except KafkaError as error:
            self.failed = True
            target.read_to_its_end = None
            return self._error(target, error.code), -1

    @property
    def is_enough(self) -> bool:
        """Whether the client must not wait any longer."""
        return self.failed or self.nbytes >= self.enough_bytes or self.files >= self._max_files

    async def wait(self, seconds: float) -> None:
        """Wait until a read is worth it, or time is up; then read.

        It is worth it when enough is readable, or when a partition is not served any more.
        """
        broker = self._broker
        places: dict[Partition, int] = {}
        try:
            for place, target in enumerate(self._fetch.targets):
                places[target.read_to_its_end or self._partition(target)] = place
        except KafkaError:  # deleted a moment ago: the answer says so
            await broker.turns.finish(self.run())
            return
        targets, waiters = self._fetch.targets, broker.waiters

        def ready() -> bool:
            partition = waiters.woken
            if isinstance(partition, Partition):
                return self._is_worth_a_pass(partition, targets[places[partition]], places[partition])
            # Before the wait: what has changed since it was read.
            return any(
                not targets[place].is_unchanged and self._is_worth_a_pass(partition, targets[place], place)
                for partition, place in places.items()
            )

        await waiters.wait(places, seconds, ready)
        await broker.turns.finish(self.run())

    def _is_worth_a_pass(self, partition: Partition, target: FetchTarget, place: int) -> bool:
        """Whether there may be enough now that this partition has changed."""
        if not self._has_news(partition, target):
            return False
        if self.enough_bytes <= 1:
            return True
        self.failed = False
        self.nbytes -= self.sizes[place]
        self.files -= self.sizes[place] > 0
        data, _ = self._read_or_fail(target)
        size = 0
        if isinstance(data.records, FileSlice):
            size = data.records.nbytes
            data.records.release()
        self.sizes[place] = size
        self.nbytes += size
        self.files += size > 0
        return self.is_enough

    def release(self) -> None:
        """Let go of what was read and is not sent."""
        for place, data in enumerate(self.results):
            if data is not None and isinstance(data.records, FileSlice):
                data.records.release()
                self.results[place] = None

    def _has_news(self, partition: Partition, target: FetchTarget) -> bool:
        if partition.offline or partition.log.log_start_offset > target.fetch_offset:
            return True
        return partition.readable_end(read_committed=self._read_committed) > target.fetch_offset

    def response(self) -> Steps[FetchResponse]:
        """The answer, with its partitions grouped by topic."""
        session_id, included = yield from self._broker.fetch_sessions.finish(
            self._fetch, self.results, self.sizes
        )
        responses: list[FetchableTopicResponse] = []
        last: tuple[str | None, Uuid] | None = None
        for target, data in included:
            yield
            if (target.topic, target.topic_id) != last:
                last = (target.topic, target.topic_id)
                responses.append(
                    FetchableTopicResponse(topic=target.topic or "", topic_id=target.topic_id, partitions=[])
                )
            responses[-1].partitions.append(data)
        return FetchResponse(session_id=session_id, responses=responses)

    def _read(self, target: FetchTarget) -> tuple[PartitionData, int]:
        """The partition's answer, and the offset after its records; -1 without records."""
        partition = self._partition(target)
        target.read_to_its_end = None
        partition.require_leader_epoch(target.leader_epoch)
        log = partition.log
        self._require_format(log.config)
        data = PartitionData(
            partition_index=target.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._read_committed else None,
        )
        if target.last_fetched_epoch >= 0:
            epoch, end_offset = partition.end_offset_for_epoch(target.last_fetched_epoch)
            if epoch < 0:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "The epoch fetched last is not known here.")
            if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                data.records = b""
                self.failed = True
                return data, -1
        if self.files >= self._max_files:
            data.records = b""
            return data, -1
        end = partition.readable_end(read_committed=self._read_committed)
        max_bytes, min_one_batch = self._limits(target, max(self._max_bytes - self.nbytes, 0))
        found = log.read(
            target.fetch_offset, max_bytes, upper_bound=end, min_one_batch=min_one_batch, pass_empty=True
        )
        if found is None:
            data.records = b""
            if target.fetch_offset >= end:
                target.read_to_its_end, target.changes = partition, partition.changes
            return data, -1
        if self._read_committed:
            try:
                aborted = log.aborted_transactions(target.fetch_offset, found.end_offset)
            except KafkaError:
                found.slice.release()
                raise
            data.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in aborted
            ]
        data.records = found.slice
        return data, found.end_offset

    def _limits(self, target: FetchTarget, room: int) -> tuple[int, bool]:
        """The bytes to read of a partition at most, and whether one batch may be more."""
        return min(target.max_bytes, room), self.nbytes == 0

    def _require_format(self, config: LogConfig) -> None:
        """Refuse a client that cannot read what the topic holds."""
        if config.compression_type == "zstd" and self._api_version < FIRST_VERSION_WITH_ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    def _partition(self, target: FetchTarget) -> Partition:
        if target.topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._request.replica_id >= 0 or self._request.replica_state.replica_id >= 0:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = self._broker.replicas.partition(target.topic, target.partition)
        if target.topic_id not in (ZERO_UUID, partition.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    def _error(self, target: FetchTarget, code: ErrorCode) -> PartitionData:
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._api_version < FIRST_VERSION_WITH_STORAGE_ERROR:
            # Older clients do not know the code and would not retry.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=target.partition,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=[] if code in _ANSWERED_WITHOUT_A_READ else None,
            records=b"",
        )
