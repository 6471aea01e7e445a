"""A topic that is created, written, read and deleted over and over, under one name.

Each life has a topic id, a producer, a reader and a witness of its own. What belongs to an earlier life must
neither harm the present one nor be found in it: a delayed request of a client or of the controller, or a log
that a broker kept while it was away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from kafkapy.inter_broker.peers import PeerAddress, PeerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.types import Uuid
from kafkapy.virtual.world import World
from tests.promises.history import Partition
from tests.simulation.clients import BACKOFF, JUDGED_AFTER, Client, SimulatedProducer, SimulatedReader
from tests.simulation.witness import Witness

NAME: Final = "short-lived"
SECONDS: Final = 1.5
"""The longest that records are written to one life of the topic."""


class _Life:
    """The topic from its creation to its deletion."""

    def __init__(
        self, topic_id: Uuid, witness: Witness, producer: SimulatedProducer, reader: SimulatedReader
    ):
        self.topic_id = topic_id
        self.witness = witness
        self.producer = producer
        self.reader = reader
        self.is_judged = False
        """Whether everything was read, so that it may be deleted."""


class ShortLivedTopic(Client):
    """One partition with the most replicas, in one life after another."""

    def __init__(
        self,
        world: World,
        addresses: Mapping[int, PeerAddress],
        faults_until: float,
        leader: Callable[[Partition], int],
    ) -> None:
        """`leader` tells which broker leads a partition, as the metadata tree has it."""
        super().__init__(world, "short-lived", addresses)
        self.lives = 0
        self._replicas = len(addresses)
        self._faults_until = faults_until
        self._leader = leader
        self._life: _Life | None = None
        """The present life, or the one at which `live` was cancelled."""

    async def run(self) -> None:
        """Live for ever."""
        while True:
            await self.live()

    async def live(self) -> None:
        """Create the topic, write and read it, and delete it; or continue where this was cancelled."""
        if self._life is None:
            self._life = await self._begin()
            await self._life.producer.run(self.world.now + self.world.chance.random() * SECONDS)
        if not self._life.is_judged:
            await self._judge(self._life)
        await self._delete(self._life.topic_id)
        self._life = None

    async def _begin(self) -> _Life:
        topic_id = await self._create()
        self.lives += 1
        witness = Witness(self.world, self._leader)
        told = self._addresses, witness
        producer = SimulatedProducer(self.world, f"s{self.lives}", *told, [(NAME, 0)])
        reader = SimulatedReader(self.world, f"t{self.lives}", *told, (NAME, 0))
        producer.dead_topics = reader.dead_topics = self.dead_topics
        return _Life(topic_id, witness, producer, reader)

    async def _judge(self, life: _Life) -> None:
        """Read everything that was acknowledged; leaders may be away as long as there are faults."""
        await life.reader.read_known(max(self.world.now, self._faults_until) + JUDGED_AFTER)
        life.witness.judge()
        life.is_judged = True

    async def _create(self) -> Uuid:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=NAME, num_partitions=1, replication_factor=self._replicas)],
            timeout_ms=1000,
        )
        while True:
            try:
                told = (await self.ask(self.any_broker(), request)).topics[0]
            except PeerError:
                pass
            else:
                if told.error_code == ErrorCode.NONE:
                    created: Uuid = told.topic_id
                    return created
                if told.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    found = await self._id_told()
                    if found is not None:
                        return found
            await asyncio.sleep(BACKOFF)

    async def _id_told(self) -> Uuid | None:
        """The id of the topic, as a broker has it, unless it is that of an earlier life."""
        self.forget_topic(NAME)
        await self.look_up((NAME, 0))
        return self.topic_ids.pop(NAME, None)

    async def _delete(self, topic_id: Uuid) -> None:
        # By id: a request that is delayed must not delete the next life.
        request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=1000)
        while True:
            try:
                told = (await self.ask(self.any_broker(), request)).responses[0]
            except PeerError:
                pass
            else:
                if told.error_code == ErrorCode.NONE:
                    break
                if told.error_code == ErrorCode.UNKNOWN_TOPIC_ID and await self._is_gone(topic_id):
                    break
            await asyncio.sleep(BACKOFF)
        self.dead_topics.add(topic_id)
        self.world.note(self.name, "deleted", self.lives)

    async def _is_gone(self, topic_id: Uuid) -> bool:
        return await self._id_told() != topic_id
