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

from collections.abc import Iterable, Iterator
from functools import partial
from heapq import heappop, heappush

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.offline_replicas import OfflineReplicas
from kafkapy.handlers.per_partition import answer_each, answer_in_steps, visit_each
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
from kafkapy.security.acls.model import Operation, ResourceType


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
    wanted = yield from answer_each(asked or image.topics, lambda name: name if name >= first_name else None)
    allowed = yield from answer_each(
        wanted,
        lambda name: (
            name
            if context.may(Operation.DESCRIBE, ResourceType.TOPIC, name, log_if_denied=bool(asked))
            else None
        ),
    )
    names = yield from _heap(allowed)
    limit = min(context.broker.config["max.request.partition.size.limit"], request.response_partition_limit)
    page = _Page(context, first_name, first_partition, max(limit, 1))
    topics = yield from answer_in_steps(page.names(names), page.describe)
    if asked and len(allowed) < len(wanted):
        shown = set(allowed)
        topics += yield from answer_each(wanted, lambda name: None if name in shown else _hidden(name))
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=page.next_cursor)


class _Page:
    """One page of an answer."""

    def __init__(self, context: RequestContext, first_name: str, first_partition: int, limit: int) -> None:
        self.next_cursor: Cursor | None = None
        """Where the next page begins, if there is one."""
        self._context = context
        self._image = context.broker.shown_image
        self._first = first_name, first_partition
        self._remaining = limit
        """The partitions for which there is room."""
        self._live = {node.id for node in context.nodes()}
        self._offline = OfflineReplicas(context, self._live)

    def names(self, heap: list[str]) -> Iterator[str]:
        """The topics of this page, in their order."""
        while heap and self.next_cursor is None:
            name = heappop(heap)
            if self._remaining:
                yield name
            else:
                self.next_cursor = Cursor(topic_name=name, partition_index=0)

    def describe(self, name: str) -> Steps[DescribeTopicPartitionsResponseTopic]:
        """The next topic of this page, with as many partitions as there is room for."""
        topic = self._image.topics.get(name)
        if topic is None:
            return _absent(self._context, name)
        first_name, first_partition = self._first
        first = first_partition if name == first_name else 0
        end = min(len(topic.partitions), first + self._remaining)
        if end < len(topic.partitions):
            self.next_cursor = Cursor(topic_name=name, partition_index=end)
        self._remaining -= max(end - first, 0)
        return DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=topic.id,
            is_internal=is_internal(name),
            partitions=(yield from answer_each(range(first, end), partial(self._partition, topic))),
            topic_authorized_operations=self._context.operations_on(ResourceType.TOPIC, name),
        )

    def _partition(self, topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition | None:
        state = topic.partitions[index]
        if not state.exists:
            return None
        offline = self._offline.of(topic.name, index, state.replicas)
        is_here = state.leader == self._context.broker.node_id
        is_led = state.leader in self._live and not (is_here and state.leader in offline)
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


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    """The answer about a topic that the client may not see, whether it exists or not."""
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _absent(context: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=context.operations_on(ResourceType.TOPIC, name),
    )


def _heap(names: Iterable[str]) -> Steps[list[str]]:
    """The names as a heap.

    Sorting them would have no pauses, and a page needs the first ones only.
    """
    heap: list[str] = []
    yield from visit_each(names, lambda name: heappush(heap, name))
    return heap


def _refused(asked: Iterable[str]) -> Steps[DescribeTopicPartitionsResponse]:
    """INVALID_REQUEST for each topic: the response has no error of its own."""
    names = yield from _heap(asked)
    topics = yield from answer_each(
        range(len(names)),
        lambda _: DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name=heappop(names)
        ),
    )
    return DescribeTopicPartitionsResponse(topics=topics)
