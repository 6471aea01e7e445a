"""The pass of a fetch request over its partitions.

A pass reads each log within the request's limits, and can be repeated: a request that waits for more bytes
releases its slices and reads again when a partition changes. A consumer may have thousands of partitions, few
of which have news. A partition that was read to its end is not read again before it changes. In a session,
requests do not even look at it before (sessions.py). A pass takes turns with other work.

A pass reads from the page cache only. If it needs index pages or batch headers that are not there, a thread
loads them, and the pass is repeated: a slow disk delays only its own readers. It is repeated too after a
thread has rebuilt damaged indexes.

An answer keeps the files of its slices open until it is sent, so it has slices of a limited number of files.
The other partitions are answered by the next fetch, as when max bytes is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, Protocol, TypeVar

from kafkapy.configs.config import BrokerConfig
from kafkapy.fetch.nearest_replica import is_rack_aware, nearest_replica
from kafkapy.fetch.sessions import (
    NO_SESSION,
    NO_SUCH_PARTITION,
    FetchContext,
    FetchSessionCache,
    FetchTarget,
)
from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.turns import Steps, Turns
from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.cache import MetadataCache
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.replicas.leader import Leader
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.replicas.topic_traffic import TopicTraffic
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import NotReadyError
from kafkapy.storage.disk.files import FileSlice
from kafkapy.storage.log.log_config import LogConfig

P = ParamSpec("P")
T = TypeVar("T")

READ_COMMITTED = 1
FIRST_VERSION_WITH_STORAGE_ERROR = 6
FIRST_VERSION_WITH_ZSTD = 10
FIRST_VERSION_FROM_FOLLOWERS = 11
"""The first version whose consumers may read from followers (KIP-392)."""

MOST_LOADS: Final = 64
"""After so many loads a pass waits for the disk: the page cache does not keep the bytes.

A search in an index of 10 MB needs 12 of its pages.
"""

_NOT_A_FAILURE = NO_SUCH_PARTITION | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_OUT_OF_RANGE,
}
"""The errors that Apache Kafka's FailedFetchRequestsPerSec leaves out."""

_ANSWERED_WITHOUT_A_READ = NO_SUCH_PARTITION | {ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
"""Kafka answers these errors with an empty list of aborted transactions instead of null."""


class FetchParts(Protocol):
    """The parts of a broker that fetches need."""

    config: BrokerConfig
    node_id: int
    metadata: MetadataCache
    logs: LogManager
    replicas: ReplicaManager
    waiters: Waiters
    turns: Turns
    fetch_sessions: FetchSessionCache
    cold_reads: ColdReads
    conversions: asyncio.Semaphore
    """Limits the requests that occupy a worker thread with the conversion of records."""

    async def blocking(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in a worker thread."""

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of a topic, which `metadata` may not have yet; None if there is none."""


class FetchRead:
    """The partitions of a fetch request, and what the last pass read of each."""

    passes_empty = True
    """Whether batches without records are skipped, which some clients cannot read alone."""

    __slots__ = (
        "_api_version",
        "_broker",
        "_fetch",
        "_in_session",
        "_loads",
        "_max_bytes",
        "_max_files",
        "_may_read",
        "_missing",
        "_of_leader",
        "_rack",
        "_read_committed",
        "_request",
        "_throttle",
        "end_offsets",
        "enough_bytes",
        "failed",
        "files",
        "nbytes",
        "results",
        "sizes",
    )

    def __init__(
        self,
        broker: FetchParts,
        api_version: int,
        request: FetchRequest,
        fetch: FetchContext,
        may_read: Callable[[str], bool] | None = None,
    ) -> None:
        """`may_read` says whether the client may read a topic; None if it may read all."""
        self._broker = broker
        self._may_read = may_read
        self._api_version = api_version
        self._request = request
        self._fetch = fetch
        self._max_bytes: int = min(request.max_bytes, broker.config["fetch.max.bytes"])
        self._max_files = broker.logs.files.open_files.per_answer
        self._read_committed = request.isolation_level == READ_COMMITTED
        self.enough_bytes = min(request.min_bytes, self._max_bytes)
        """The number of bytes with which the client is answered at once."""
        self._of_leader = api_version < FIRST_VERSION_FROM_FOLLOWERS
        """Whether only the leader may serve this client."""
        self._throttle: Callable[[int], int] | None = None
        """Records the bytes of the answer, and returns for how many milliseconds its client is throttled."""
        selector = broker.config["replica.selector.class"]
        self._rack: str = request.rack_id if selector and is_rack_aware(selector) else ""
        """The rack whose replicas should serve the client; "" for any."""
        self._in_session = fetch.session is not None
        """Whether the answer omits partitions without news."""
        self.results: list[PartitionData | None] = []
        """The answer of each partition; None for a partition of a session without news."""
        self.sizes: list[int] = []
        self.end_offsets: list[int] = []
        """The offset after the records read of each partition; -1 if none were read."""
        self.nbytes = 0
        self.files = 0
        """The number of slices read. Each may keep a file open."""
        self._missing: list[NotReadyError] = []
        """The reads that were not ready in the last pass."""
        self._loads = 0
        """How often a thread has provided what was missing."""
        self.failed = False
        """Whether a partition must be answered at once.

        It has an error or a diverging epoch, or another replica should be asked.
        """

    def throttle_by(self, throttle: Callable[[int], int], most: float | None) -> None:
        """Answer without records if `throttle` of their bytes is not 0.

        An answer has no more than `most` bytes, if that is given.
        """
        self._throttle = throttle
        if most is not None:
            self._max_bytes = min(self._max_bytes, int(most))
            self.enough_bytes = min(self.enough_bytes, self._max_bytes)

    def run(self) -> Steps[None]:
        """Read every partition that may have changed since the last pass, in the session's order."""
        self._add_woken()
        targets, before = list(self._fetch.targets), self.results
        self.results, self.sizes, self.end_offsets = [], [], []
        self.nbytes, self.files, self.failed = 0, 0, False
        self._release_missing()
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

    def _add_woken(self) -> list[FetchTarget]:
        """Add the partitions of the session that have changed meanwhile; return them."""
        woken = self._fetch.look_again()
        added = len(self._fetch.targets) - len(self.results)
        self.results += [None] * added
        self.sizes += [0] * added
        self.end_offsets += [-1] * added
        return woken

    def _read_or_fail(self, target: FetchTarget) -> tuple[PartitionData, int]:
        try:
            with self._broker.logs.files.cached_only(or_wait=self._loads >= MOST_LOADS):
                return self._read(target)
        except NotReadyError as missing:
            self._missing.append(missing.with_traceback(None))  # whose frames refer to this request
            target.read_to_its_end = None
            return PartitionData(partition_index=target.partition, high_watermark=-1, records=b""), -1
        except KafkaError as error:
            self.failed = True
            target.read_to_its_end = None
            code = error.code
            self._count_failure(target, code)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._partition(target).replication.may_be_deposed:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # another broker may have the offset
            return self._error(target, code), -1

    @property
    def is_complete(self) -> bool:
        """Whether the last pass had all that it needed; otherwise pass `again`."""
        return not self._missing

    @property
    def is_enough(self) -> bool:
        """Whether the client must not wait any longer."""
        return self.failed or self.nbytes >= self.enough_bytes or self.files >= self._max_files

    async def wait(self, seconds: float) -> None:
        """Wait until another pass is useful, at most `seconds`; then read.

        It is useful if enough bytes may be readable, or if a partition is no longer served.
        """
        fetch, waiters = self._fetch, self._broker.waiters
        watched: dict[Partition, FetchTarget] = {}
        try:
            for target in fetch.targets:
                watched[target.read_to_its_end or self._partition(target)] = target
        except KafkaError:  # it was deleted a moment ago, which the answer will say
            await self.again()
            return

        def ready() -> bool:
            partition = waiters.woken
            if isinstance(partition, Partition):
                return self._is_worth_a_pass(partition, watched[partition])
            # Partitions may have changed between the read and this wait.
            return any(
                not target.is_unchanged and self._is_worth_a_pass(partition, target)
                for partition, target in watched.items()
            )

        if fetch.session is None:
            await waiters.wait(watched, seconds, ready)
        else:
            for partition, target in watched.items():
                target.listen(partition)
                if not target.is_unchanged:
                    fetch.session.woken[target] = None
            await waiters.wait((fetch.session,), seconds, self._woken_are_worth_a_pass)
        await self.again()

    def _woken_are_worth_a_pass(self) -> bool:
        for target in self._add_woken():
            partition = target.listens_to
            # A partition that is not served any more is not listened to.
            if partition is None or self._is_worth_a_pass(partition, target):
                return True
        return False

    async def again(self) -> None:
        """Pass over the partitions, and repeat it until nothing is missing."""
        await self._broker.turns.finish(self.run())
        while self._missing:
            missing, self._missing = self._missing, []
            self.release()
            self._loads += 1
            if not await self._broker.cold_reads.provide_all(missing):
                self._loads = MOST_LOADS  # the next pass meets the error, not the next load
            await self._broker.turns.finish(self.run())

    def _is_worth_a_pass(self, partition: Partition, target: FetchTarget) -> bool:
        """Whether there may be enough bytes, now that this partition has changed."""
        place = self._fetch.targets[target]
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
        return self.is_enough or not self.is_complete

    def release(self) -> None:
        """Release the slices that were read and not sent."""
        self._release_missing()
        for place, data in enumerate(self.results):
            if data is not None and isinstance(data.records, FileSlice):
                data.records.release()
                self.results[place] = None

    def _release_missing(self) -> None:
        for each in self._missing:
            each.release()
        self._missing.clear()

    def _has_news(self, partition: Partition, target: FetchTarget) -> bool:
        if partition.log.log_start_offset > target.fetch_offset:
            return True
        try:
            partition.require_leader_epoch(target.leader_epoch, of_leader=self._of_leader)
        except KafkaError:  # the pass meets it too, and answers it
            return True
        return self._readable_end(partition) > target.fetch_offset

    def _is_throttled(self, partition: Partition) -> bool:
        """Whether the answer must not have records of a partition now."""
        return False

    def _readable_end(self, partition: Partition) -> int:
        """The offset up to which the client may read."""
        return partition.readable_end(read_committed=self._read_committed)

    def response(self) -> Steps[FetchResponse]:
        """The answer, with its partitions grouped by topic; without any if the client is throttled."""
        if self._throttle is not None and (throttle_ms := self._throttle(self.nbytes)) > 0:
            self.release()
            session = self._fetch.session
            return FetchResponse(
                throttle_time_ms=throttle_ms, session_id=NO_SESSION if session is None else session.id
            )
        session_id, included = yield from self._broker.fetch_sessions.finish(
            self._fetch, self.results, self.sizes
        )
        responses: list[FetchableTopicResponse] = []
        last: tuple[str | None, Uuid] | None = None
        traffic = self._broker.replicas.traffic
        for target, data in included:
            yield
            if traffic is not None and target.topic is not None and data.records:
                records = data.records
                nbytes = len(records) if isinstance(records, bytes) else records.nbytes
                self._count_bytes(traffic.of(target.topic), nbytes)
            if (target.topic, target.topic_id) != last:
                last = (target.topic, target.topic_id)
                responses.append(
                    FetchableTopicResponse(topic=target.topic or "", topic_id=target.topic_id, partitions=[])
                )
            responses[-1].partitions.append(data)
        return FetchResponse(session_id=session_id, responses=responses)

    def _count_bytes(self, traffic: TopicTraffic, nbytes: int) -> None:
        """Count the bytes that the client gets."""
        traffic.bytes_out += nbytes

    def _count_failure(self, target: FetchTarget, error: ErrorCode) -> None:
        """Count a failed read of a partition that is here, as Apache Kafka does."""
        if error not in _NOT_A_FAILURE and target.topic is not None:
            partition = self._broker.replicas.find(TopicPartition(target.topic, target.partition))
            if partition is not None and partition.traffic is not None:
                partition.traffic.failed_fetches += 1

    def _read(self, target: FetchTarget) -> tuple[PartitionData, int]:
        """The partition's answer, and the offset after its records; -1 without records."""
        partition = self._partition(target)
        if partition.traffic is not None:
            partition.traffic.fetches += 1
        target.read_to_its_end = None
        partition.require_leader_epoch(target.leader_epoch, of_leader=self._of_leader)
        log = partition.log
        self._require_format(log.config)
        data = PartitionData(
            partition_index=target.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._read_committed else None,
        )
        diverging = diverging_epoch(partition, target)
        if diverging is not None:
            data.diverging_epoch = diverging
            data.records = b""
            self.failed = True
            return data, -1
        if self._rack and (nearest := self._nearest_replica(partition, target)) is not None:
            data.preferred_read_replica, data.records = nearest, b""
            self.failed = True
            return data, -1
        is_full = self.files + len(self._missing) >= self._max_files  # the slices to load are kept open too
        if is_full or self._is_throttled(partition):
            data.records = b""
            return data, -1
        end = self._readable_end(partition)
        max_bytes, min_one_batch = self._limits(target, max(self._max_bytes - self.nbytes, 0))
        found = log.read(
            target.fetch_offset,
            max_bytes,
            upper_bound=end,
            min_one_batch=min_one_batch,
            pass_empty=self.passes_empty,
        )
        if found is None:
            data.records = b""
            if target.fetch_offset >= end:
                target.read_to_its_end, target.changes = partition, partition.changes
            return data, -1
        if self._read_committed:
            try:
                aborted = log.aborted_transactions(target.fetch_offset, found.end_offset)
            except BaseException:
                found.slice.release()
                raise
            data.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in aborted
            ]
        data.records = found.slice
        return data, found.end_offset

    def _nearest_replica(self, partition: Partition, target: FetchTarget) -> int | None:
        """The other broker that should serve the client; None if this one should."""
        leader = partition.replication
        if not isinstance(leader, Leader):
            return None
        brokers = self._broker.metadata.image.brokers
        return nearest_replica(leader, target.fetch_offset, self._rack, brokers, self._broker.node_id)

    def _limits(self, target: FetchTarget, room: int) -> tuple[int, bool]:
        """The most bytes to read of a partition, and whether one batch may exceed them."""
        return min(target.max_bytes, room), self.nbytes == 0

    def _require_format(self, config: LogConfig) -> None:
        """Raise KafkaError if the client cannot read the topic's records."""
        if config.compression_type == "zstd" and self._api_version < FIRST_VERSION_WITH_ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    def _partition(self, target: FetchTarget) -> Partition:
        if target.topic is None:  # this broker may have heard of the topic since
            target.topic = self._broker.topic_name(target.topic_id)
        if target.topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._may_read is not None and not self._may_read(target.topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
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


def diverging_epoch(partition: Partition, target: FetchTarget) -> EpochEndOffset | None:
    """Where the log of a client diverges from the partition's; None if it does not.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE, the epoch that the client fetched last is not known here, or its
            offset is before the log's start.
    """
    if target.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.end_offset_for_epoch(target.last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "The epoch fetched last is not known here.")
    if target.fetch_offset < partition.log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
