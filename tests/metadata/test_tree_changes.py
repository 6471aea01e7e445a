"""Changes of the tree by others.

Reading many of them costs no more for each than reading few.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from kafkapy.metadata import tree_changes, znodes
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.image import NO_LEADER, NO_NODE, MetadataImage, PartitionState, Topic
from kafkapy.metadata.store import MetadataStore
from kafkapy.metadata.tree_changes import NODES_AT_ONCE, TreeChanges
from tests.calls import calls_of

MANY = 8_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    opened = await EmbeddedStore.open(tmp_path / "metadata.db", sync=False)
    yield opened
    await opened.close()


@pytest.fixture
def changes(store: MetadataStore) -> TreeChanges:
    return TreeChanges(store)


async def first_read(changes: TreeChanges, image: MetadataImage) -> MetadataImage:
    """The image after the first group of changes."""
    async with aclosing(changes.read(image)) as images:  # type: ignore[type-var]
        async for found in images:
            return found
    raise AssertionError("nothing was read")


async def test_the_time_to_sort_changed_states_is_linear(store: MetadataStore) -> None:
    async def seconds(count: int) -> float:
        """The CPU time until the first of so many changed states are read."""
        changes = TreeChanges(store)
        changes.add(znodes.partition_state_path("orders", index) for index in range(count))
        started = time.thread_time()
        await first_read(changes, MetadataImage(cluster_id="a"))
        return time.thread_time() - started

    few, many = [min([await seconds(count) for _ in range(3)]) for count in (MANY // 8, MANY)]
    assert many < 24 * few, "8 times as long, 50 times if each path is compared with all others"


async def test_a_topic_is_looked_at_once_for_many_of_its_states(
    changes: TreeChanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = calls_of(monkeypatch, tree_changes, "is_unfinished")
    state = PartitionState(1, 4, (1, 2), (1, 2), version=5)
    topic = Topic("orders", bytes(15) + b"1", (state,) * 1000, {})
    image = MetadataImage(cluster_id="a").with_topics([topic])
    changes.add(znodes.partition_state_path("orders", index) for index in range(NODES_AT_ONCE))
    read = await first_read(changes, image)
    assert [topic.name for (topic,), _ in looks] == ["orders"]
    gone = [each for each in read.topics["orders"].partitions if each.version == NO_NODE]
    assert len(gone) == NODES_AT_ONCE
    assert all(each.leader == NO_LEADER and each.replicas == (1, 2) for each in gone)
    assert read.unfinished == {"orders"}
