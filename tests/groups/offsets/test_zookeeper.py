"""Offsets of consumers of Kafka 0.8 are nodes below /consumers.

A group's name leads nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import Create, MetadataStore
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    opened = await EmbeddedStore.open(tmp_path / "metadata.db", sync=False, directory=None)
    yield opened
    await opened.close()


async def nodes(store: MetadataStore, path: str) -> dict[str, bytes]:
    """The nodes below a path that have data."""
    return {path: node.data for path, node in (await store.subtree(path)).items() if node.data}


async def test_offsets_are_where_old_consumers_look_for_them(store: MetadataStore) -> None:
    offsets = ZooKeeperOffsets(store)
    assert await offsets.commit("g", {T0: 5, T1: 0, U0: 7}) == dict.fromkeys((T0, T1, U0), ErrorCode.NONE)
    assert await nodes(store, "/consumers") == {
        "/consumers/g/offsets/t/0": b"5",
        "/consumers/g/offsets/t/1": b"0",
        "/consumers/g/offsets/u/0": b"7",
    }
    await offsets.commit("g", {T0: 6})
    assert await offsets.fetch("g", [T0, T1, TopicPartition("t", 2)]) == {
        T0: 6,
        T1: 0,
        TopicPartition("t", 2): None,
    }
    assert await offsets.fetch("h", [T0]) == {T0: None}


async def test_many_offsets_of_several_clients_are_written_at_once(store: MetadataStore) -> None:
    offsets = ZooKeeperOffsets(store)
    wanted = {TopicPartition("t", index): index for index in range(120)}
    answers = await asyncio.gather(*(offsets.commit("g", wanted) for _ in range(3)))
    assert answers == [dict.fromkeys(wanted, ErrorCode.NONE)] * 3
    assert await offsets.fetch("g", wanted) == wanted


NO_NODES = ["", ".", "..", "../brokers", "a/../../brokers", "/g", "g/", "a//b", "a\0b", "a\nb", "\ud800"]
OF_OTHERS = ["g/ids", "g/owners/t", "g/offsets", "a/g/ids"]
TOO_DEEP = ["a/" * 10 + "b", "a/" * 16_000 + "b"]


@pytest.mark.parametrize("group", [*NO_NODES, "😀", *OF_OTHERS, *TOO_DEEP], ids=lambda name: ascii(name)[:20])
async def test_a_group_that_is_no_node_of_its_own_below_consumers_is_refused(
    store: MetadataStore, group: str
) -> None:
    before = await store.subtree("/consumers") if await store.exists("/consumers") else {}
    offsets = ZooKeeperOffsets(store)
    for call in (offsets.commit(group, {T0: 5}), offsets.fetch(group, [T0])):
        with pytest.raises(KafkaError) as refusal:
            await call
        assert refusal.value.code is ErrorCode.INVALID_GROUP_ID
    assert await store.exists("/brokers") is None
    assert (await store.subtree("/consumers") if await store.exists("/consumers") else {}) == before


@pytest.mark.parametrize("group", ["a b", "grün", "%2F", "a/b", "...", "offsets", "a/" * 9 + "b"])
async def test_any_other_name_is_a_node(store: MetadataStore, group: str) -> None:
    offsets = ZooKeeperOffsets(store)
    assert await offsets.commit(group, {T0: 5}) == {T0: ErrorCode.NONE}
    assert await offsets.fetch(group, [T0]) == {T0: 5}
    assert await nodes(store, f"/consumers/{group}") == {f"/consumers/{group}/offsets/t/0": b"5"}


async def test_an_offset_that_is_no_number_is_an_error_of_its_partition(
    store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = ZooKeeperOffsets(store)
    await offsets.commit("g", {T0: 5})
    await store.multi([Create("/consumers/g/offsets/t/1", b"five")])
    assert await offsets.fetch("g", [T0, T1]) == {T0: 5, T1: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert "the offset in /consumers/g/offsets/t/1 cannot be read" in caplog.text
