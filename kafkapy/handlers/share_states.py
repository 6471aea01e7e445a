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
    by_topic: dict[Uuid, Any] = {}
    answered: set[ShareKey] = set()
    for topic in request.topics if request.group_id else ():
        if turn.is_over():
            await turn.end()
        answers = by_topic.get(topic.topic_id)
        if answers is None:
            answers = by_topic[topic.topic_id] = topic_class(topic_id=topic.topic_id)
            results.append(answers)
        for data in topic.partitions:
            if turn.is_over():
                await turn.end()
            key = ShareKey(request.group_id, topic.topic_id, data.partition)
            if reads:
                if key in answered:
                    continue
                answered.add(key)
            result = partition_class(partition=data.partition)
            answers.partitions.append(result)
            if refusal:
                result.error_code = refusal
                continue
            try:
                await answer(key, data, result)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
