"""The common part of requests to a share coordinator: an answer for each partition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafkapy.handlers.broker_requests import refusal_of
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.types import Uuid
from kafkapy.share.state_records import ShareKey


async def answer_each(
    context: RequestContext,
    request: Any,
    results: list[Any],
    topic_class: Callable[..., Any],
    partition_class: Callable[..., Any],
    answer: Callable[[ShareKey, Any, Any], Awaitable[None]],
    *,
    reads: bool = False,
) -> None:
    """Answer for each share partition of a request, in its order; others are served in between.

    A broker alone refuses it to clients: CLUSTER_AUTHORIZATION_FAILED for each share partition.

    If the request `reads`, a share partition that is named twice is answered once, as it is named first.

    `results` gets an object of `topic_class` for each topic, which gets one of `partition_class` for each
    partition. `answer(key, data, result)` fills in the result, or raises KafkaError. Without a group id there
    are no results, as with Apache Kafka.
    """
    turn, refusal = context.broker.turns.begin(), refusal_of(context)
    by_topic: dict[Uuid, tuple[Any, set[int]]] = {}
    for topic in request.topics if request.group_id else ():
        if turn.is_over():
            await turn.end()
        if topic.topic_id not in by_topic:
            results.append(topic_class(topic_id=topic.topic_id))
            by_topic[topic.topic_id] = results[-1], set()
        answers, answered = by_topic[topic.topic_id]
        for data in topic.partitions:
            if turn.is_over():
                await turn.end()
            if reads:
                if data.partition in answered:
                    continue
                answered.add(data.partition)
            result = partition_class(partition=data.partition)
            answers.partitions.append(result)
            if refusal:
                result.error_code = refusal
                continue
            try:
                await answer(ShareKey(request.group_id, topic.topic_id, data.partition), data, result)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
