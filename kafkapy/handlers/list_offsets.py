"""ListOffsets: offsets by time, and where a partition starts and ends.

Versions: 0-11.

Behaviour: each partition asks for a timestamp (the first record at or after it) or for a special one:

    -1  latest: the high watermark, or the last stable offset for read_committed
    -2  earliest: the log start offset
    -3  max timestamp: the record with the largest timestamp (v7+, KIP-734)
    -4  earliest local: the same as earliest here, where nothing is tiered (v8+, KIP-405)
    -5  latest tiered: none here (v9+, KIP-1005)
    -6  earliest pending upload: none here (v11+, KIP-1023)

Offsets that a consumer could not read yet are answered as unknown (-1). A partition that is named twice is
INVALID_REQUEST each time. Earliest and latest are answered from
memory: Spark asks for both at every poll of every partition.

Version notes: v0 knows the time of segments, not of records: it answers at most as many offsets as the client
wants, the latest first, of what is not newer than the timestamp: the base offsets of segments, whose time is
that of their file, and the end of the log, whose time is now. v2 adds the isolation level, v4 leader epochs,
v10 a
timeout for tiered look-ups, which never wait here."""

from __future__ import annotations

from collections import Counter

from kafkapy.context import RequestContext
from kafkapy.partition import Partition
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkapy.turns import Steps

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = LAST_SPECIAL = -6

FIRST_VERSION_BY_RECORDS = 1
FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_COMMITTED = 1
CONSUMER = -1
DEBUGGING_REPLICA = -2
"""A replica id that may see what is not committed yet."""

UNKNOWN = (-1, -1, -1)
Found = tuple[int, int, int]
"""Timestamp in ms, offset, leader epoch; -1 for what is not known."""


def handle(context: RequestContext, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    """Answer each partition on its own; one that fails does not stop the others."""
    times_named: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for wanted in topic.partitions:
            yield
            times_named[topic.name, wanted.partition_index] += 1
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            yield
            is_repeated = times_named[topic.name, wanted.partition_index] > 1
            partitions.append(_answer(context, request, topic.name, wanted, is_repeated=is_repeated))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _answer(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
    *,
    is_repeated: bool,
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        if is_repeated:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if context.api_version < FIRST_VERSION_BY_RECORDS:
            answer.old_style_offsets = _old_style_offsets(context, request, topic, wanted)
            return answer
        if context.api_version < FIRST_VERSION_OF.get(wanted.timestamp, 0) or wanted.timestamp < LAST_SPECIAL:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = context.broker.replicas.partition(topic, wanted.partition_index)
        partition.require_leader_epoch(wanted.current_leader_epoch)
        if request.replica_id == DEBUGGING_REPLICA:
            end = partition.log.log_end_offset
        else:
            end = partition.readable_end(read_committed=request.isolation_level == READ_COMMITTED)
        answer.timestamp, answer.offset, answer.leader_epoch = _find(partition, wanted.timestamp, end)
    except KafkaError as error:
        answer.error_code = error.code
    return answer


def _old_style_offsets(
    context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> list[int]:
    """Where reading can start, as clients before Kafka 0.10.1 ask (UnifiedLog.legacyFetchOffsetsBefore)."""
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


def _find(partition: Partition, timestamp: int, end: int) -> Found:
    log = partition.log
    if timestamp == LATEST:
        return -1, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, partition.earliest_epoch
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset()
    else:
        found = log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        return UNKNOWN
    return found.timestamp, found.offset, found.leader_epoch
