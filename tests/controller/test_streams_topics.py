"""The internal topics of streams groups are created once, in the background.

Refusals are remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kafkapy.controller.automatic_topics import AutomaticTopics
from kafkapy.controller.streams_topics import MOST_REFUSALS, StreamsTopics
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from tests.controller.test_automatic_topics import FakeController, alone, among_others
from tests.loop.turned_clock import TurnedClock


def wanted(*names: str, **configs: str) -> list[NewTopic]:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    return [NewTopic(name, 2, configs=settings) for name in names]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  the condition has no event
            await asyncio.sleep(0)


async def test_topics_are_created_with_their_settings(cluster: Any) -> None:
    automatic = alone(cluster)
    assert automatic.streams.create(wanted("a", "b", cleanup_policy="compact"), pause_seconds=10) == {}
    assert automatic.streams.create(wanted("a", cleanup_policy="compact"), pause_seconds=10) == {}
    await until(lambda: {"a", "b"} <= cluster.image.topics.keys())
    assert cluster.image.topics["a"].configs == {"cleanup.policy": "compact"}
    assert len(cluster.image.topics["b"].partitions) == 2
    await automatic.stop()


async def test_a_topic_that_cannot_be_created_is_named(cluster: Any) -> None:
    automatic, bad = alone(cluster), wanted("a", retention_ms="soon")
    await until(lambda: automatic.streams.create(bad, pause_seconds=10))
    assert "soon" in automatic.streams.create(bad, pause_seconds=10)["a"]
    assert "a" not in cluster.image.topics
    await automatic.stop()


async def test_a_refusal_is_told_until_the_topic_is_tried_again() -> None:
    clock = TurnedClock()
    tries: list[list[str]] = []

    async def refuse(topics: Sequence[NewTopic]) -> dict[str, KafkaError]:
        tries.append([topic.name for topic in topics])
        return {topics[0].name: KafkaError(ErrorCode.POLICY_VIOLATION, "not today")}

    streams = StreamsTopics(refuse, clock)
    assert streams.create(wanted("a", "b"), pause_seconds=10) == {}
    await until(lambda: tries)
    clock.seconds += 9.9
    assert streams.create(wanted("a", "b"), pause_seconds=10) == {"a": "not today"}
    await until(lambda: len(tries) == 2)
    clock.seconds += 0.2
    assert streams.create(wanted("a"), pause_seconds=10) == {}
    await until(lambda: len(tries) == 3)
    assert tries == [["a", "b"], ["b"], ["a"]]


async def test_another_broker_asks_the_controller_once(cluster: Any) -> None:
    controller = FakeController()
    automatic = among_others(cluster, controller)
    for _ in range(3):
        automatic.streams.create(wanted("a", "b", retention_ms="-1"), pause_seconds=10)
        await asyncio.sleep(0)
    (request,) = controller.requests
    assert [(topic.name, topic.num_partitions) for topic in request.topics] == [("a", 2), ("b", 2)]
    assert [(each.name, each.value) for each in request.topics[0].configs] == [("retention.ms", "-1")]
    await controller.answer(a=ErrorCode.NONE, b=ErrorCode.POLICY_VIOLATION)
    assert automatic.streams.create(wanted("b"), pause_seconds=10) == {"b": "POLICY_VIOLATION"}
    await automatic.stop()


async def test_what_is_not_finished_is_given_up_at_the_stop(cluster: Any) -> None:
    controller = FakeController()
    automatic = among_others(cluster, controller)
    automatic.streams.create(wanted("a"), pause_seconds=10)
    await until(lambda: controller.requests)
    await automatic.stop()


async def test_not_all_refusals_are_remembered(cluster: Any) -> None:
    controller = FakeController()
    automatic: AutomaticTopics = among_others(cluster, controller)
    names = [f"t{number}" for number in range(MOST_REFUSALS + 1)]
    automatic.streams.create(wanted(*names), pause_seconds=10)
    await until(lambda: controller.requests)
    await controller.answer(**dict.fromkeys(names, ErrorCode.POLICY_VIOLATION))
    refused = automatic.streams.create(wanted(*names), pause_seconds=10)
    assert len(refused) == MOST_REFUSALS
    assert names[0] not in refused, "the oldest is forgotten"
    await automatic.stop()
