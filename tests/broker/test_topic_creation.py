"""A topic is created in few steps, so that a broker creates many in a second."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

TOPICS = 200


@pytest.mark.parametrize(("partitions", "most"), [(1, 245), (20, 2_550)])
def test_the_calls_of_functions_on_the_loop_for_each_topic(partitions: int, most: int) -> None:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def create(core: BrokerCore, prefix: str, topics: int) -> None:
        wanted = [
            CreatableTopic(name=f"{prefix}{number}", num_partitions=partitions, replication_factor=1)
            for number in range(topics)
        ]
        created = await core.loopback.ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), seconds=60)
        assert not any(each.error_code for each in created.topics)

    async def counted(core: BrokerCore) -> float:
        await create(core, "first", 2)  # which imports what it needs
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            await create(core, "many", TOPICS)
        finally:
            sys.setprofile(before)
        return calls / TOPICS

    with kafkapy.Broker() as broker:
        assert broker.submit(counted).result(60) < most
