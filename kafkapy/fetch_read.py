"""One fetch request's pass over its partitions: what each has to answer.

A pass reads the log no further than the request's limits let it, and can be repeated: a request that waits
for more bytes lets go of what it has read and reads again when there is news.

An answer keeps the files of its slices open until it is sent. So it has slices of so many files only; the
other partitions have their turn with the next fetch, as when max bytes is reached.
"""

from __future__ import annotations

from kafkapy.context import RequestContext
from kafkapy.fetch_sessions import FetchContext, FetchTarget
from kafkapy.partition import Partition
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
from kafkapy.storage.files import FileSlice
from kafkapy.storage.log_config import LogConfig

READ_COMMITTED = 1
FIRST_VERSION_WITH_STORAGE_ERROR = 6
FIRST_VERSION_WITH_ZSTD = 10

_NO_SUCH_PARTITION = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Kafka answers these without a look at a log, and then with no aborted transactions in place of null."""


class FetchRead:
    """The partitions of a fetch request, and what was read of each in the last pass."""

    __slots__ = (
        "_context",
        "_fetch",
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

    def __init__(self, context: RequestContext, request: FetchRequest, fetch: FetchContext) -> None:
        self._context = context
        self._request = request
        self._fetch = fetch
        self._max_bytes: int = min(request.max_bytes, context.broker.config["fetch.max.bytes"])
        self._max_files = context.broker.logs.files.open_files.per_answer
        self._read_committed = request.isolation_level == READ_COMMITTED
        self.enough_bytes = min(request.min_bytes, self._max_bytes)
        """With so many bytes the client is answered at once."""
        self.results: list[PartitionData] = []
        self.sizes: list[int] = []
        self.end_offsets: list[int] = []
        """The offset behind what was read of each partition, -1 where that is nothing."""
        self.nbytes = 0
        self.files = 0
        """Slices that were read: each may keep a file open."""
        self.failed = False
        """Some partition answers with an error or a diverging epoch: the client must hear at once."""

    def run(self) -> None:
        """Read every partition, in the session's order."""
        self.results, self.sizes, self.end_offsets = [], [], []
        self.nbytes, self.files, self.failed = 0, 0, False
        for target in self._fetch.targets:
            end_offset = -1
            try:
                data, end_offset = self._read(target)
            except KafkaError as error:
                data = self._error(target, error.code)
                self.failed = True
            records, size = data.records, 0
            if isinstance(records, FileSlice):
                size = records.nbytes
                self.files += 1
            self.results.append(data)
            self.sizes.append(size)
            self.end_offsets.append(end_offset)
            self.nbytes += size

    @property
    def is_enough(self) -> bool:
        """Whether the client must not wait any longer."""
        return self.failed or self.nbytes >= self.enough_bytes or self.files >= self._max_files

    async def wait(self, seconds: float) -> None:
        """Wait until enough is readable, a partition is not served any more, or time is up; then read."""
        try:
            watched = [(self._partition(target), target) for target in self._fetch.targets]
        except KafkaError:  # deleted a moment ago: the answer says so
            self.run()
            return

        def ready() -> bool:
            if not any(self._has_news(partition, target) for partition, target in watched):
                return False
            if self._request.min_bytes > 1:
                self.run()
                if not self.is_enough:
                    self.release()
                    return False
            return True

        await self._context.broker.waiters.wait([partition for partition, _ in watched], seconds, ready)
        if not self.results:
            self.run()

    def release(self) -> None:
        """Let go of what was read and is not sent."""
        for data in self.results:
            if isinstance(data.records, FileSlice):
                data.records.release()
        self.results = []

    def _has_news(self, partition: Partition, target: FetchTarget) -> bool:
        if partition.offline or partition.log.log_start_offset > target.fetch_offset:
            return True
        return partition.readable_end(read_committed=self._read_committed) > target.fetch_offset

    def response(self) -> FetchResponse:
        """The answer, with its partitions grouped by topic."""
        session_id, included = self._context.broker.fetch_sessions.finish(
            self._fetch, self.results, self.sizes
        )
        responses: list[FetchableTopicResponse] = []
        last: tuple[str | None, Uuid] | None = None
        for target, data in included:
            if (target.topic, target.topic_id) != last:
                last = (target.topic, target.topic_id)
                responses.append(
                    FetchableTopicResponse(topic=target.topic or "", topic_id=target.topic_id, partitions=[])
                )
            responses[-1].partitions.append(data)
        return FetchResponse(session_id=session_id, responses=responses)

    def _read(self, target: FetchTarget) -> tuple[PartitionData, int]:
        """The partition's answer, and the offset behind its records; -1 without records."""
        partition = self._partition(target)
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
        if config.compression_type == "zstd" and self._context.api_version < FIRST_VERSION_WITH_ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    def _partition(self, target: FetchTarget) -> Partition:
        if target.topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._request.replica_id >= 0 or self._request.replica_state.replica_id >= 0:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = self._context.broker.replicas.partition(target.topic, target.partition)
        if target.topic_id not in (ZERO_UUID, partition.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    def _error(self, target: FetchTarget, code: ErrorCode) -> PartitionData:
        if (
            code is ErrorCode.KAFKA_STORAGE_ERROR
            and self._context.api_version < FIRST_VERSION_WITH_STORAGE_ERROR
        ):
            # Older clients do not know the code and would not retry.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=target.partition,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=[] if code in _NO_SUCH_PARTITION else None,
            records=b"",
        )
