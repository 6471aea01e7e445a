"""Long messages are freed in pieces, and what a handler keeps of a request stays as it is."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from kafkapy.loop.turns import FREED_AT_ONCE
from kafkapy.network.freeing import Freeing, elements_of, free_response
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class Partition(PartitionProduceData):
    __slots__ = ()

    freed: ClassVar[int] = 0

    def __del__(self) -> None:
        Partition.freed += 1


def request(partitions: int, topics: int = 1) -> ProduceRequest:
    """A request whose partitions are counted when they are freed."""
    Partition.freed = 0
    each = [
        TopicProduceData(name=f"t{number}", partition_data=[Partition(index=i) for i in range(partitions)])
        for number in range(topics)
    ]
    return ProduceRequest(topic_data=each)


async def rounds_until(freed: int) -> list[int]:
    """Let the loop run until so many partitions are freed; return how many each round freed."""
    counts = []
    while Partition.freed < freed:
        before = Partition.freed
        await asyncio.sleep(0)
        counts.append(Partition.freed - before)
    return counts


async def test_a_round_of_the_loop_frees_few_elements_of_an_inner_array() -> None:
    many = 5 * FREED_AT_ONCE
    held = elements_of(request(many))
    assert not Partition.freed
    Freeing(asyncio.get_running_loop()).free(held)
    del held
    counts = await rounds_until(many)
    assert 0 < max(counts) <= FREED_AT_ONCE


async def test_two_long_requests_share_the_rounds() -> None:
    freeing = Freeing(asyncio.get_running_loop())
    for topics in (1, 3 * FREED_AT_ONCE):
        made = request(3 * FREED_AT_ONCE // topics, topics)
        freeing.free(elements_of(made))
        del made
    counts = await rounds_until(3 * FREED_AT_ONCE)
    assert max(counts) <= FREED_AT_ONCE


async def test_an_array_that_a_handler_keeps_stays() -> None:
    made = request(2 * FREED_AT_ONCE)
    kept = made.topic_data[0].partition_data
    Freeing(asyncio.get_running_loop()).free(elements_of(made))
    del made
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(kept) == 2 * FREED_AT_ONCE
    assert not Partition.freed


def test_a_response_is_freed_even_if_something_still_names_it() -> None:
    made: Any = request(2 * FREED_AT_ONCE)
    free_response(made)
    assert Partition.freed == 2 * FREED_AT_ONCE
