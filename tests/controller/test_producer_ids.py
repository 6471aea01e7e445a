"""A producer id is assigned once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kafkapy.controller.producer_ids import ProducerIds
from kafkapy.metadata.store import MetadataStoreError
from kafkapy.protocol.errors import ErrorCode, KafkaError


async def test_ids_are_consecutive_within_a_block_that_is_reserved_as_kafka_does(cluster: Any) -> None:
    ids = [await cluster.admin.producer_ids.next_producer_id() for _ in range(3)]
    assert ids == [0, 1, 2]
    assert json.loads((await cluster.store.get("/latest_producer_id_block")).data) == {
        "version": 1,
        "broker": 1,
        "block_start": "0",
        "block_end": "999",
    }


async def test_many_who_ask_at_once_all_get_ids_of_their_own(cluster: Any) -> None:
    ids = await asyncio.gather(*(cluster.admin.producer_ids.next_producer_id() for _ in range(2500)))
    assert sorted(ids) == list(range(2500))


async def test_no_id_is_given_again_after_a_restart(start_cluster: Any) -> None:
    cluster = await start_cluster()
    first = await cluster.admin.producer_ids.next_producer_id()
    cluster = await start_cluster()
    assert await cluster.admin.producer_ids.next_producer_id() == first + 1000


async def test_brokers_reserve_blocks_of_their_own(cluster: Any) -> None:
    one, two = ProducerIds(cluster.store, 1), ProducerIds(cluster.store, 2)
    ids = await asyncio.gather(*(each.next_producer_id() for each in (one, two) * 600))
    assert len(set(ids)) == 1200


async def test_a_store_that_fails_lets_the_client_try_again(cluster: Any) -> None:
    async def fail(*args: object) -> None:
        raise MetadataStoreError("disk full")

    cluster.store.intercept("multi", fail)
    with pytest.raises(KafkaError) as caught:
        await cluster.admin.producer_ids.next_producer_id()
    cluster.store.let_through("multi")
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await cluster.admin.producer_ids.next_producer_id() == 0


async def test_when_all_ids_are_used_up_nothing_is_given_twice(cluster: Any) -> None:
    last = {"version": 1, "broker": 1, "block_start": "0", "block_end": str(2**63 - 2)}
    await cluster.store.set("/latest_producer_id_block", json.dumps(last).encode())
    with pytest.raises(KafkaError, match="exhausted"):
        await cluster.admin.producer_ids.next_producer_id()


async def test_ids_begin_after_those_of_logs_that_were_found(cluster: Any) -> None:
    await cluster.admin.producer_ids.begin_after(4321)
    assert await cluster.admin.producer_ids.next_producer_id() > 4321


async def test_ids_are_left_while_the_store_is_away(cluster: Any) -> None:
    reserved = asyncio.Event()

    async def report(multi: Any, operations: Any) -> Any:
        versions = await multi(operations)
        reserved.set()
        return versions

    async def fail(*args: object) -> None:
        raise MetadataStoreError("away")

    cluster.store.intercept("multi", report)
    ids = ProducerIds(cluster.store, 1)
    ids.reserve_ahead()
    await reserved.wait()
    reserved.clear()
    for _ in range(950):
        await ids.next_producer_id()
    await reserved.wait()
    cluster.store.intercept("multi", fail)
    assert [await ids.next_producer_id() for _ in range(1050)] == list(range(950, 2000))
    with pytest.raises(KafkaError, match="away"):
        await ids.next_producer_id()
    await ids.stop()
