"""Fetch: records from the log, by file slices that the connection sends with sendfile.

Versions: 4-18.

Behaviour: every partition is read up to its own max bytes and to what is left of the request's; the first
that has records may pass both limits by one batch, so that a consumer always gets on. Readers see what is
below the high watermark, or with read_committed below the last stable offset, together with the aborted
transactions in what they read. If fewer than min bytes are there, the answer waits for more, at most max
wait; an error, or a partition that goes away, is answered at once. A partition with an error gets its own
code and the rest go on.

Fetch sessions (KIP-227) are in fetch_sessions.py.

Version notes: v7 sessions, v9 leader epochs, v12 the epoch fetched last (a log that was cut answers where the
epochs part), v13 topic ids instead of names. v0-3 carry message formats 0 and 1 and are not listed. A replica
id means a follower: this broker has none, and refuses it with NOT_LEADER_OR_FOLLOWER, so that no client can
pass for one (CVE-2018-1288)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

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

READ_COMMITTED = 1
FIRST_VERSION_WITH_STORAGE_ERROR = 6


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Read what is there; wait when it is too little."""
    broker = context.broker
    try:
        fetch = broker.fetch_sessions.begin(request, context.api_version, broker.metadata.image.topic_name)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    read = FetchRead(context, request, fetch)
    read.run()
    if request.max_wait_ms <= 0 or read.is_enough or not fetch.targets:
        return read.response()
    read.release()
    return _wait(read, request.max_wait_ms / 1000)


async def _wait(read: FetchRead, seconds: float) -> FetchResponse:
    """Answer when there is enough, or with what there is when the time is over."""
    try:
        await read.wait(seconds)
    except asyncio.CancelledError:
        read.release()
        raise
    return read.response()


class FetchRead:
    """One fetch request's pass over its partitions; may be run again after a wait."""

    __slots__ = (
        "_context",
        "_fetch",
        "_max_bytes",
        "_read_committed",
        "_request",
        "failed",
        "nbytes",
        "results",
        "sizes",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, fetch: FetchContext) -> None:
        self._context = context
        self._request = request
        self._fetch = fetch
        self._max_bytes: int = min(request.max_bytes, context.broker.config["fetch.max.bytes"])
        self._read_committed = request.isolation_level == READ_COMMITTED
        self.results: list[PartitionData] = []
        self.sizes: list[int] = []
        self.nbytes = 0
        self.failed = False
        """Some partition answers with an error or a diverging epoch: the client must hear at once."""

    def run(self) -> None:
        """Read every partition, in the session's order."""
        self.results, self.sizes, self.nbytes, self.failed = [], [], 0, False
        for target in self._fetch.targets:
            size = 0
            try:
                data, size = self._read(target)
            except KafkaError as error:
                data = self._error(target, error.code)
                self.failed = True
            self.results.append(data)
            self.sizes.append(size)
            self.nbytes += size

    @property
    def is_enough(self) -> bool:
        """Whether the client must not wait any longer."""
        return self.failed or self.nbytes >= min(self._request.min_bytes, self._max_bytes)

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
        partition = self._partition(target)
        partition.require_leader_epoch(target.leader_epoch)
        log = partition.log
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
                return data, 0
        end = partition.readable_end(read_committed=self._read_committed)
        room = self._max_bytes - self.nbytes
        found = log.read(
            target.fetch_offset,
            min(target.max_bytes, max(room, 0)),
            upper_bound=end,
            min_one_batch=self.nbytes == 0,
        )
        if found is None:
            data.records = b""
            return data, 0
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
        return data, found.slice.nbytes

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
            partition_index=target.partition, error_code=code, high_watermark=-1, records=b""
        )
