"""ListOffsets: find offsets by time, and where a partition starts and ends.

Versions: 0-11.

Behaviour:

- Each partition asks for a timestamp, which means the first record at or after it, or for a special one:
  - -1, latest: the high watermark, or the last stable offset for read_committed. A follower, or a client that
    debugs (replica id -2), gets the end of the log.
  - -2, earliest: the log start offset.
  - -3, max timestamp: the record with the largest timestamp (v7+, KIP-734).
  - -4, earliest local: the same as earliest, since nothing is tiered here (v8+, KIP-405).
  - -5, latest tiered: there is none here (v9+, KIP-1005).
  - -6, earliest pending upload: there is none here (v11+, KIP-1023).
- An offset that a consumer could not read yet is answered as unknown (-1).
- While a new leader does not know yet that everything before its epoch is committed, the latest offset could
  go back (KIP-207). It is OFFSET_NOT_AVAILABLE then, or LEADER_NOT_AVAILABLE before v5, and so are searches.
- A partition that is named twice is INVALID_REQUEST each time.
- Earliest and latest are answered from memory: Spark asks for both at every poll of every partition.
- Records are searched for in a thread, when it is the connection's turn (loop/validation.py). Where a
  batch decompresses to more than `max.decompressed.message.bytes`, the answer is MESSAGE_TOO_LARGE.

Version notes:

- v0 knows the time of segments, not of records. It answers offsets that are not newer than the timestamp,
  the latest first, and at most as many as the client wants. They are the base offsets of segments, whose
  time is that of their file, and the end of the log, whose time is now.
- v2 adds the isolation level.
- v4 adds leader epochs.
- v10 adds a timeout for tiered look-ups, which never wait here.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from functools import partial

from kafkapy.fetch.read import READ_COMMITTED
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_partitions, visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.loop.validation import TURN_SECONDS
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kafkapy.protocol.special_timestamps import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kafkapy.security.acls.model import Operation, ResourceType
from kafkapy.storage.log.timestamp_search import LogChangedError, TimestampSearch

LAST_SPECIAL = EARLIEST_PENDING_UPLOAD
FIRST_VERSION_BY_RECORDS = 1
FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
CONSUMER = -1
"""The replica id of consumers; all others may see uncommitted records."""
DEBUGGING_REPLICA = -2
"""A client that may ask followers too."""
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5


def handle(
    context: RequestContext, request: ListOffsetsRequest
) -> Steps[ListOffsetsResponse] | Awaitable[ListOffsetsResponse]:
    """Answer each partition on its own; one that fails does not stop the others."""
    if any(_is_searched(wanted.timestamp) for topic in request.topics for wanted in topic.partitions):
        return _handle_searches(context, request)
    return _answers(context, request, [])


def _is_searched(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


async def _handle_searches(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Search for records in a thread.

    A search may have to read thousands of files, and to decompress large batches.
    """
    searches: list[_Search] = []
    response = await context.broker.turns.finish(_answers(context, request, searches))
    left = deque(searches)
    while left:
        for search in await context.broker.validation.run(context.connection, partial(_run_some, left)):
            if not search.settle():
                left.append(search)
    return response


def _run_some(left: deque[_Search]) -> list[_Search]:
    """Run searches for one turn, in a thread; return those that ended."""
    ended: list[_Search] = []
    end = time.thread_time() + TURN_SECONDS
    while left and (not ended or time.thread_time() < end):
        search = left.popleft()
        search.run()
        ended.append(search)
    return ended


class _Search:
    """A search for the answer of one partition."""

    __slots__ = ("_answer", "_begin", "_end", "_search")

    def __init__(
        self, answer: ListOffsetsPartitionResponse, begin: Callable[[], TimestampSearch], end: int
    ) -> None:
        """Begin the search; `begin` may raise KafkaError.

        Records from `end` on are not for this client.
        """
        self._answer = answer
        self._begin = begin
        self._end = end
        self._search = begin()

    def run(self) -> None:
        """Search, in any thread."""
        self._search.run()

    def settle(self) -> bool:
        """Set the answer, on the loop.

        False if the log has changed meanwhile, and `run` must run again.
        """
        answer = self._answer
        try:
            try:
                found = self._search.result()
            except LogChangedError:
                self._search = self._begin()
                return False
            if found is not None and found.offset < self._end:
                answer.timestamp, answer.offset, answer.leader_epoch = found
        except KafkaError as error:
            answer.error_code = error.code
        return True


def _answers(
    context: RequestContext, request: ListOffsetsRequest, searches: list[_Search]
) -> Steps[ListOffsetsResponse]:
    """The response, except for partitions whose searches are added to `searches`."""
    times_named: Counter[tuple[str, int]] = Counter()

    def count(topic: ListOffsetsTopic, wanted: ListOffsetsPartition) -> None:
        times_named[topic.name, wanted.partition_index] += 1

    def answer(topic: ListOffsetsTopic, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        found = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
        try:
            context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
            if times_named[topic.name, wanted.partition_index] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            _answer(context, request, topic.name, wanted, found, searches)
        except KafkaError as error:
            found.error_code = error.code
        return found

    yield from visit_partitions(request.topics, lambda topic: topic.partitions, count)
    topics = yield from answer_partitions(
        request.topics,
        lambda topic: topic.partitions,
        answer,
        lambda topic, answers: ListOffsetsTopicResponse(name=topic.name, partitions=answers),
    )
    return ListOffsetsResponse(topics=topics)


def _answer(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    searches: list[_Search],
) -> None:
    timestamp = wanted.timestamp
    if context.api_version < FIRST_VERSION_BY_RECORDS:
        answer.old_style_offsets = _old_style_offsets(context, request, topic, wanted)
        return
    if context.api_version < FIRST_VERSION_OF.get(timestamp, 0) or timestamp < LAST_SPECIAL:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition = context.broker.replicas.partition(topic, wanted.partition_index)
    of_leader = request.replica_id != DEBUGGING_REPLICA
    partition.require_leader_epoch(wanted.current_leader_epoch, of_leader=of_leader)
    if request.replica_id != CONSUMER:
        end = partition.log.log_end_offset
    else:
        end = partition.readable_end(read_committed=request.isolation_level == READ_COMMITTED)
        if timestamp not in (EARLIEST, EARLIEST_LOCAL) and not partition.has_committed_epoch_start:
            old = context.api_version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE if old else ErrorCode.OFFSET_NOT_AVAILABLE)
    if timestamp == LATEST:
        answer.offset, answer.leader_epoch = end, partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset, answer.leader_epoch = partition.log.log_start_offset, partition.earliest_epoch
    elif _is_searched(timestamp):
        limit: int = context.broker.config["max.decompressed.message.bytes"]

        def begin() -> TimestampSearch:
            log = context.broker.replicas.partition(topic, wanted.partition_index).log
            return log.search(None if timestamp == MAX_TIMESTAMP else timestamp, limit)

        searches.append(_Search(answer, begin, end))


def _old_style_offsets(
    context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> list[int]:
    """The offsets at which reading can start, for clients before Kafka 0.10.1.

    Source: Kafka's UnifiedLog.legacyFetchOffsetsBefore.
    """
    if wanted.timestamp < EARLIEST:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition = context.broker.replicas.partition(topic, wanted.partition_index)
    partition.require_leader_epoch(-1)
    log = partition.log
    now_ms = context.broker.clock.now_ms()
    # A new log may have no files yet: they would be as old as it is.
    modified_ms = log.log_directory.files.modified_ms if log.new_files is None else lambda _: now_ms
    places = log.guarded(
        "looking at",
        lambda: [
            (max(each.base_offset, log.log_start_offset), modified_ms(each.path)) for each in log.segments
        ],
    )
    if log.segments.active.size:
        places.append((log.log_end_offset, now_ms))
    if wanted.timestamp == EARLIEST:
        del places[1:]
    elif wanted.timestamp != LATEST:
        while places and places[-1][1] > wanted.timestamp:
            places.pop()
    offsets = [offset for offset, _ in reversed(places)][: max(wanted.max_num_offsets, 0)]
    end = log.high_watermark
    if request.replica_id == CONSUMER and any(offset > end for offset in offsets):
        offsets = [end, *(offset for offset in offsets if offset <= end)]
    return offsets
