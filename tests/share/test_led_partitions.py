"""The share partitions of a broker, when it leads their partitions no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkapy.loop.timers import Timers
from kafkapy.loop.waiters import Waiters
from kafkapy.protocol.types import TopicPartition
from kafkapy.share.led_partitions import LedPartition, LedPartitions, LedState
from kafkapy.share.persister import StoredState
from kafkapy.share.state_records import ShareKey
from tests.loop.turned_clock import TurnedClock

TOPIC_ID = bytes(15) + b"t"


class Place:
    """A partition that this broker leads."""

    def __init__(self, index: int) -> None:
        self._place = TopicPartition("t", index)
        self.looks = 0
        """How often somebody has looked which partition it is."""
        self.topic_id = TOPIC_ID
        self.leader_epoch = self.term = self.offline = 0
        self.replication = SimpleNamespace(leads=True, require_leader=lambda: None)

    @property
    def topic_partition(self) -> TopicPartition:
        self.looks += 1
        return self._place

    def require_online(self) -> None:
        """It is online."""


class States:
    """A share coordinator that takes its time."""

    async def read(self, key: ShareKey, leader_epoch: int) -> StoredState:
        await asyncio.Event().wait()
        raise AssertionError

    async def write(self, key: ShareKey, **state: Any) -> None:
        """Nothing is decided."""


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        timers = Timers(loop)
        self.places = [Place(index) for index in range(100)]
        self.led = LedPartitions(
            States(),
            cast("Any", None),
            TurnedClock(),
            timers,
            Waiters(loop, timers),
            find_partition=lambda topic, index: cast("Any", self.places[index]),
            find_offset=cast("Any", None),
        )

    def get(self, group: str, index: int) -> LedPartition:
        return self.led.get(ShareKey(group, TOPIC_ID, index), "t")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.led.stop()


async def test_a_broker_gives_up_the_share_partitions_of_what_it_leads_no_more(world: World) -> None:
    lost, kept = [world.get("g", 1), world.get("h", 1)], [world.get("g", 2)]
    world.places[1].replication.leads = False
    world.led.leadership_changed("t", 1, False, 1)
    assert [led.state for led in lost] == [LedState.FENCED] * 2
    assert [led.state for led in kept] == [LedState.LOADING]
    assert len(world.led) == 1


async def test_a_new_leader_epoch_of_the_same_leader_gives_up_nothing(world: World) -> None:
    led = world.get("g", 1)
    world.led.leadership_changed("t", 1, True, 1)
    assert led.state is LedState.LOADING


async def test_a_change_of_leadership_costs_nothing_for_other_partitions(world: World) -> None:
    for place in world.places:
        world.get("g", place.topic_partition.partition)
        place.looks = 0
    for place in world.places[:50]:
        place.replication.leads = False
        world.led.leadership_changed("t", place._place.partition, False, 1)
    assert sum(place.looks for place in world.places[50:]) == 0
    assert len(world.led) == 50
