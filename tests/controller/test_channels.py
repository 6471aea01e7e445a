"""The controller's channels send requests in order, and those to stop replicas together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from kafkapy.controller.channels import STOPPED_AT_ONCE, Channels
from kafkapy.controller.request_batch import ControlRequest
from kafkapy.inter_broker.peers import Peers
from kafkapy.metadata.image import Broker
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

FAILED = "failed"


class OwnBroker:
    """Notes what it is asked; the first answer waits until `answers` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        self._note("lead")
        await self.answers.wait()
        return LeaderAndIsrResponse()

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        self._note("update")
        await self.answers.wait()
        return UpdateMetadataResponse()

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1, 2, 3)
        self._note("stop " + " ".join(topic.topic_name for topic in request.topic_states))
        await self.answers.wait()
        errors = [
            StopReplicaPartitionError(
                topic_name=topic.topic_name,
                partition_index=state.partition_index,
                error_code=ErrorCode.KAFKA_STORAGE_ERROR if topic.topic_name == FAILED else ErrorCode.NONE,
            )
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        return StopReplicaResponse(partition_errors=errors)

    def _note(self, request: str) -> None:
        self.asked.append(request)
        self.is_asked.set()


class World:
    """A controller's channel to its own broker."""

    def __init__(self) -> None:
        self.broker = OwnBroker()
        self.answered: list[tuple[ControlRequest, Any]] = []
        self.channels = Channels(
            1,
            self.broker,
            cast("Peers", None),
            listener="PLAINTEXT",
            seconds=1,
            answered=self._note,
        )
        self.left = 0
        self.is_over = asyncio.Event()
        self.channels.add(Broker(1, None, {}, 3))

    def _note(self, _broker: Broker, request: ControlRequest, response: Any) -> None:
        self.answered.append((request, response))
        self.left -= 1
        if not self.left:
            self.is_over.set()

    async def sent(self, *requests: ControlRequest) -> list[str]:
        """What the broker is asked, if all but the first are sent while that is not answered."""
        self.left = len(requests)
        for request in requests:
            self.channels.send(1, request)
            await self.broker.is_asked.wait()
        self.broker.answers.set()
        await self.is_over.wait()
        self.channels.end()
        return self.broker.asked


def stop(topic: str, partitions: int = 1) -> StopReplicaRequest:
    states = [StopReplicaPartitionState(partition_index=n, delete_partition=True) for n in range(partitions)]
    return StopReplicaRequest(
        controller_id=1,
        controller_epoch=2,
        broker_epoch=3,
        topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=states)],
    )


async def test_deletions_that_wait_are_sent_together_after_the_news_between_them() -> None:
    asked = await World().sent(
        stop("a"), UpdateMetadataRequest(), stop("b"), UpdateMetadataRequest(), stop("c"), stop("d")
    )
    assert asked == ["stop a", "update", "update", "stop b c d"]


async def test_no_deletion_passes_a_request_to_lead() -> None:
    asked = await World().sent(stop("a"), stop("b"), LeaderAndIsrRequest(), stop("c"), stop("d"))
    assert asked == ["stop a", "stop b", "lead", "stop c d"]


async def test_one_request_stops_a_limited_number_of_partitions() -> None:
    asked = await World().sent(stop("a"), stop("b", STOPPED_AT_ONCE - 1), stop("c"), stop("d"))
    assert asked == ["stop a", "stop b c", "stop d"]


async def test_each_of_them_gets_the_answers_for_its_own_partitions() -> None:
    world = World()
    requests = stop("a"), stop("b", 2), stop(FAILED), stop("c")
    await world.sent(*requests)
    assert [request for request, _ in world.answered] == list(requests)
    assert [
        [(each.topic_name, each.error_code) for each in answer.partition_errors]
        for _, answer in world.answered
    ] == [
        [("a", ErrorCode.NONE)],
        [("b", ErrorCode.NONE)] * 2,
        [(FAILED, ErrorCode.KAFKA_STORAGE_ERROR)],
        [("c", ErrorCode.NONE)],
    ]
