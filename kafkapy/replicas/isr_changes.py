"""Changes of in-sync replicas, from this broker's leaders to the controller.

All proposals that wait go into one AlterPartition request, and one request is under way at a time. A proposal
is sent again until the controller has decided on it or its leader does not wait for it any more. The time
since a replica was caught up is checked every half of `replica.lag.time.max.ms`.

Source: DefaultAlterPartitionManager, ReplicaManager.maybeShrinkIsr; KIP-497.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from kafkapy.inter_broker.peers import PeerError
from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.replicas.leader import Leader, Proposal

RETRY_SECONDS: Final = 0.05
"""The delay before proposals are sent again."""

CHECKED_AT_ONCE: Final = 200
"""How many leaders are checked in one turn of the event loop."""

logger = logging.getLogger(__name__)


class IsrChanges:
    """The proposals of one broker's leaders."""

    def __init__(
        self,
        *,
        node_id: int,
        ask_controller: Callable[[Any], Awaitable[Any]],
        broker_epoch: Callable[[], int],
        leaders: Callable[[], Iterable[Leader]],
        lag_seconds: Callable[[], float],
    ) -> None:
        """Send to the controller with `ask_controller`, which may raise PeerError or KafkaError.

        `broker_epoch` is that of this broker's registration; `leaders` are all of this broker's;
        `lag_seconds` is `replica.lag.time.max.ms`.
        """
        self._node_id = node_id
        self._ask_controller = ask_controller
        self._broker_epoch = broker_epoch
        self._leaders = leaders
        self._lag_seconds = lag_seconds
        self._waiting: dict[TopicPartition, Proposal] = {}
        self._proposed = asyncio.Event()
        self._complained = False
        """Whether the log says that the controller does not answer."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to send and to check."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._send_all(), name="isr changes"),
            loop.create_task(self._check_lags(), name="isr lags"),
        ]

    async def stop(self) -> None:
        """Stop; proposals that are under way stay open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def propose(self, proposal: Proposal) -> None:
        """Send a proposal soon.

        It replaces an earlier one for the same partition.
        """
        self._waiting[proposal.leader.partition.topic_partition] = proposal
        self._proposed.set()

    async def _check_lags(self) -> None:
        while True:
            await asyncio.sleep(self._lag_seconds() / 2)
            for count, leader in enumerate(list(self._leaders())):
                leader.shrink()
                if count % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1:
                    await asyncio.sleep(0)

    async def _send_all(self) -> None:
        while True:
            await self._proposed.wait()
            self._proposed.clear()
            while self._waiting:
                sent = {key: proposal for key, proposal in self._waiting.items() if proposal.is_open}
                self._waiting = dict(sent)
                if sent and not await self._send(sent):
                    await asyncio.sleep(RETRY_SECONDS)

    async def _send(self, sent: dict[TopicPartition, Proposal]) -> bool:
        """Send proposals, and settle those that are decided; return whether all are."""
        try:
            response = await self._ask_controller(self._request(sent))
            assert isinstance(response, AlterPartitionResponse)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
        except (PeerError, KafkaError) as error:
            if not self._complained:
                self._complained = True
                logger.info("The controller has not answered about ISRs; it is asked again: %s", error)
            return False
        except Exception:
            logger.exception("The controller could not be asked about ISRs; this is retried")
            return False
        self._complained = False
        names = {proposal.leader.partition.topic_id: key.topic for key, proposal in sent.items()}
        for topic in response.topics:
            name = names.get(topic.topic_id, topic.topic_name)
            for answer in topic.partitions:
                key = TopicPartition(name, answer.partition_index)
                if key in sent and _settle(sent[key], answer):
                    proposal = sent.pop(key)
                    if self._waiting.get(key) is proposal:
                        del self._waiting[key]
        return not sent

    def _request(self, sent: dict[TopicPartition, Proposal]) -> AlterPartitionRequest:
        topics: dict[Uuid | str, AlterPartitionRequestTopicData] = {}
        for key, proposal in sent.items():
            leader = proposal.leader
            topic_id = leader.partition.topic_id
            topic = topics.get(topic_id or key.topic)
            if topic is None:
                topic = topics[topic_id or key.topic] = AlterPartitionRequestTopicData(topic_name=key.topic)
                if topic_id is not None:
                    topic.topic_id = topic_id
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=key.partition,
                    leader_epoch=leader.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker, broker_epoch=epoch)
                        for broker, epoch in proposal.members
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )


def _settle(proposal: Proposal, answer: AlterPartitionResponsePartitionData) -> bool:
    """Tell the leader; return whether the proposal is decided."""
    leader = proposal.leader
    if answer.error_code:
        with contextlib.suppress(ValueError):
            return not leader.refuse(proposal, ErrorCode(answer.error_code))
        return False
    state = PartitionState(
        answer.leader_id,
        answer.leader_epoch,
        tuple(answer.isr),
        leader.replicas,
        version=answer.partition_epoch,
    )
    leader.settle(proposal, state)
    return True
