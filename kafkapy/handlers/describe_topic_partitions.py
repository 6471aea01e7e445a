"""DescribeTopicPartitions: describe the partitions of topics page by page (KIP-966).

Versions: 0.

Behaviour:

- Topics come in the order of their names. No topics in the request asks for all of them.
- A page has no more partitions than the request's limit or `max.request.partition.size.limit`, whichever is
  less. Where something is left over, `next_cursor` names the partition with which the next request is to
  begin.
- A cursor outside of the topics asked for is refused.
- Eligible leader replicas are never reported. They come with unclean recovery in KRaft.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop, heappush

from kafkapy.handlers.authorized_operations import TOPIC
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.offline_replicas import OfflineReplicas
from kafkapy.loop.turns import Steps, counted
from kafkapy.metadata.image import Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kafkapy.protocol.topic_names import is_internal, is_valid


def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    """Answer one page."""
    image, cursor = context.broker.shown_image, request.cursor
    first_name = "" if cursor is None else cursor.topic_name
    first_partition = 0 if cursor is None else cursor.partition_index
    asked = (yield from counted(topic.name for topic in request.topics)).keys()
    if cursor is not None and (first_partition < 0 or (asked and first_name not in asked)):
        return (yield from _refused(asked))
    names = yield from _heap(name for name in asked or image.topics if name >= first_name)
    limit = min(context.broker.config["max.request.partition.size.limit"], request.response_partition_limit)
    remaining = max(limit, 1)
    response = DescribeTopicPartitionsResponse()
    live = {node.id for node in context.nodes()}
    offline = OfflineReplicas(context, live)
    while names:
        yield
        name = heappop(names)
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_absent(name))
            continue
        first = first_partition if name == first_name else 0
        end = min(len(topic.partitions), first + remaining)
        partitions = []
        for index in range(first, end):
            yield
            if topic.partitions[index].exists:
                partitions.append(_partition(context, topic, index, live, offline))
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=is_internal(name),
                partitions=partitions,
                topic_authorized_operations=TOPIC,
            )
        )
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        remaining -= max(end - first, 0)
    return response


def _partition(
    context: RequestContext, topic: Topic, index: int, live: Collection[int], all_offline: OfflineReplicas
) -> DescribeTopicPartitionsResponsePartition:
    state = topic.partitions[index]
    offline = all_offline.of(topic.name, index, state.replicas)
    is_led = state.leader in live and not (state.leader == context.broker.node_id and state.leader in offline)
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=state.leader if is_led else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline,
    )


def _absent(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, is_internal=is_internal(name), topic_authorized_operations=TOPIC
    )


def _heap(names: Iterable[str]) -> Steps[list[str]]:
    """The names as a heap.

    Sorting them would have no pauses, and a page needs the first ones only.
    """
    heap: list[str] = []
    for name in names:
        yield
        heappush(heap, name)
    return heap


def _refused(asked: Iterable[str]) -> Steps[DescribeTopicPartitionsResponse]:
    """INVALID_REQUEST for each topic: the response has no error of its own."""
    response = DescribeTopicPartitionsResponse()
    names = yield from _heap(asked)
    while names:
        yield
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=heappop(names))
        )
    return response
