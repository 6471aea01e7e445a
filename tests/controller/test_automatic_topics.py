"""Topics that are created on demand, on the controller and on other brokers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kafkapy.controller.automatic_topics import AutomaticTopics
from kafkapy.inter_broker.peers import PeerError
from kafkapy.metadata.image import NO_CONTROLLER
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.controller.cluster_world import NODE_ID

OFFSETS = "__consumer_offsets"


class FakeController:
    """A controller elsewhere, which answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[CreateTopicsRequest] = []
        self._answers: list[asyncio.Future[CreateTopicsResponse]] = []

    async def ask(self, request: CreateTopicsRequest, *, seconds: float) -> CreateTopicsResponse:
        self.requests.append(request)
        self._answers.append(asyncio.get_running_loop().create_future())
        return await self._answers[-1]

    async def answer(self, **errors: ErrorCode) -> None:
        """Answer the oldest request."""
        results = [CreatableTopicResult(name=name, error_code=code) for name, code in errors.items()]
        await self._end(lambda waiting: waiting.set_result(CreateTopicsResponse(topics=results)))

    async def fail(self, error: Exception) -> None:
        await self._end(lambda waiting: waiting.set_exception(error))

    async def _end(self, how: Any) -> None:
        how(self._answers.pop(0))
        for _ in range(3):
            await asyncio.sleep(0)

    @property
    def asked_for(self) -> list[list[str]]:
        return [[topic.name for topic in request.topics] for request in self.requests]


def alone(cluster: Any) -> AutomaticTopics:
    return AutomaticTopics(
        cluster.admin.topics, cluster.cache, cluster.config, node_id=NODE_ID, clock=cluster.clock
    )


def among_others(cluster: Any, controller: FakeController, *, is_controller: bool = False) -> AutomaticTopics:
    """As a broker of a cluster."""
    return AutomaticTopics(
        cluster.admin.topics,
        cluster.cache,
        cluster.config,
        node_id=NODE_ID if is_controller else NODE_ID + 1,
        clock=cluster.clock,
        ask_controller=controller.ask,
    )


def errors(results: Any) -> dict[str, ErrorCode]:
    return {
        name: result.code if isinstance(result, KafkaError) else ErrorCode.NONE
        for name, result in results.items()
    }


async def test_the_offsets_topic_has_the_settings_of_its_kind(start_cluster: Any) -> None:
    cluster = await start_cluster(
        **{"offsets.topic.num.partitions": "7", "offsets.topic.replication.factor": "3"}
    )
    automatic = alone(cluster)
    topic = await automatic.ensure_internal_topic(OFFSETS)
    assert len(topic.partitions) == 7
    assert {state.replicas for state in topic.partitions} == {(1,)}
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert await automatic.ensure_internal_topic(OFFSETS) is topic


async def test_an_internal_topic_asked_for_by_many_is_created_once(cluster: Any) -> None:
    automatic = alone(cluster)
    topics = await asyncio.gather(*(automatic.ensure_internal_topic(OFFSETS) for _ in range(5)))
    assert len({topic.id for topic in topics}) == 1


class TestOnTheController:
    async def test_a_topic_is_created_before_the_answer(self, cluster: Any) -> None:
        controller = FakeController()
        automatic = among_others(cluster, controller, is_controller=True)
        results = await automatic.create(["t"])
        assert results["t"] is cluster.image.topics["t"]
        assert not controller.requests

    async def test_an_internal_topic_needs_as_many_brokers_as_replicas(
        self, start_cluster: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster = await start_cluster(**{"offsets.topic.replication.factor": "3"})
        automatic = among_others(cluster, FakeController(), is_controller=True)
        with pytest.raises(KafkaError) as refused:
            await automatic.ensure_internal_topic(OFFSETS)
        assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        assert OFFSETS not in cluster.image.topics
        assert caplog.text.count(f"{OFFSETS} (INVALID_REPLICATION_FACTOR") == 1, "clients wait for it"

    async def test_who_asks_during_a_creation_asks_again(self, cluster: Any) -> None:
        automatic = among_others(cluster, FakeController(), is_controller=True)
        first, second = await asyncio.gather(automatic.create(["t"]), automatic.create(["t"]))
        assert errors(first) == {"t": ErrorCode.NONE}
        assert errors(second) == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert errors(await automatic.create(["t"])) == {"t": ErrorCode.NONE}

    async def test_a_controller_that_was_replaced_asks_its_clients_to_ask_again(self, cluster: Any) -> None:
        automatic = among_others(cluster, FakeController(), is_controller=True)
        await cluster.admin.writer.resign()
        unknown = {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert errors(await automatic.create(["t"])) == unknown
        assert errors(await automatic.create(["t"])) == unknown, "and the name is free again"


class TestElsewhere:
    async def test_the_controller_is_asked_and_the_client_asks_again(self, start_cluster: Any) -> None:
        cluster = await start_cluster(num_partitions="4", default_replication_factor="2")
        controller = FakeController()
        automatic = among_others(cluster, controller)
        unknown = {"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert errors(await automatic.create(["a", "b"])) == unknown
        await asyncio.sleep(0)
        (request,) = controller.requests
        assert [(each.name, each.num_partitions, each.replication_factor) for each in request.topics] == [
            ("a", 4, 2),
            ("b", 4, 2),
        ]
        assert request.timeout_ms == 30_000
        await controller.answer(a=ErrorCode.NONE, b=ErrorCode.NONE)
        await automatic.stop()

    async def test_the_offsets_topic_is_asked_for_with_all_its_replicas(self, start_cluster: Any) -> None:
        cluster = await start_cluster(
            **{"offsets.topic.num.partitions": "7", "offsets.topic.replication.factor": "3"}
        )
        controller = FakeController()
        automatic = among_others(cluster, controller)
        with pytest.raises(KafkaError) as refused:
            await automatic.ensure_internal_topic(OFFSETS)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await asyncio.sleep(0)
        (topic,) = controller.requests[0].topics
        assert (topic.num_partitions, topic.replication_factor) == (7, 3)
        assert {config.name: config.value for config in topic.configs}["cleanup.policy"] == "compact"
        await automatic.stop()

    async def test_there_is_one_request_for_a_name_at_a_time(self, cluster: Any) -> None:
        controller = FakeController()
        automatic = among_others(cluster, controller)
        for names in (["a"], ["a", "b"], ["b"]):
            await automatic.create(names)
            await asyncio.sleep(0)
        assert controller.asked_for == [["a"], ["b"]]
        await controller.answer(a=ErrorCode.NONE)
        await automatic.create(["a", "b"])
        await asyncio.sleep(0)
        assert controller.asked_for == [["a"], ["b"], ["a"]]
        await automatic.stop()

    @pytest.mark.parametrize(
        "error", [PeerError("gone"), KafkaError(ErrorCode.NOT_CONTROLLER), ZeroDivisionError()]
    )
    async def test_a_controller_that_does_not_answer_is_asked_again(
        self, cluster: Any, error: Exception
    ) -> None:
        controller = FakeController()
        automatic = among_others(cluster, controller)
        for _ in range(2):
            await automatic.create(["a"])
            await asyncio.sleep(0)
            await controller.fail(error)
        assert controller.asked_for == [["a"], ["a"]]

    async def test_a_refusal_is_logged_once(self, cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
        controller = FakeController()
        automatic = among_others(cluster, controller)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await automatic.create(["a"])
                await asyncio.sleep(0)
                await controller.answer(a=ErrorCode.INVALID_REPLICATION_FACTOR)
        assert caplog.text.count("a (INVALID_REPLICATION_FACTOR)") == 1

    async def test_a_topic_that_exists_is_the_answer(self, cluster: Any) -> None:
        await alone(cluster).create(["t"])
        controller = FakeController()
        assert errors(await among_others(cluster, controller).create(["t"])) == {"t": ErrorCode.NONE}
        assert not controller.requests

    async def test_without_a_controller_the_request_waits_for_one(self, cluster: Any) -> None:
        cluster.cache.publish(cluster.image.with_brokers(cluster.image.brokers.values(), NO_CONTROLLER))
        controller = FakeController()
        automatic = among_others(cluster, controller, is_controller=True)
        await automatic.create(["t"])
        await asyncio.sleep(0)
        assert controller.asked_for == [["t"]]
        await automatic.stop()
