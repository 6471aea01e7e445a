"""An operator who moves a partition from broker to broker, all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from kafkapy.inter_broker.peers import PeerAddress, PeerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.virtual.world import World
from tests.promises.history import Partition
from tests.simulation.clients import BACKOFF, Client

PAUSE: Final = 3.0
"""The longest time between two moves."""


class Reassigner(Client):
    """Gives a partition replicas on other brokers.

    A move may begin before the last one is complete.
    """

    def __init__(
        self,
        world: World,
        name: str,
        addresses: Mapping[int, PeerAddress],
        partition: Partition,
        replicas: int,
    ) -> None:
        super().__init__(world, name, addresses)
        self.moves = 0
        self._partition = partition
        self._replicas = replicas

    async def run(self) -> None:
        """Move for ever."""
        while True:
            await asyncio.sleep(self.world.chance.random() * PAUSE)
            await self.move()

    async def move(self) -> None:
        """Ask for one move until it is accepted."""
        topic, index = self._partition
        replicas = self.world.chance.sample(sorted(self._addresses), self._replicas)
        wanted = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[wanted])], timeout_ms=1000
        )
        while True:
            try:
                answer = await self.ask(self.any_broker(), request)
            except PeerError:
                pass
            else:
                code = answer.error_code or answer.responses[0].partitions[0].error_code
                if code == ErrorCode.NONE:
                    self.moves += 1
                    self.world.note(self.name, "moves", topic, index, "to", replicas)
                    return
            await asyncio.sleep(BACKOFF)
