"""Many operations are committed in several transactions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkapy.metadata.cache import MetadataCache, open_cluster
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import Check, Create, NodeExistsError, Operation
from kafkapy.metadata.tree_changes import TreeChanges
from kafkapy.metadata.writer import MetadataWriter
from tests.metadata.intercepted_store import InterceptedStore, Multi


class Parts:
    """A writer of a controller, and what it commits at once."""

    def __init__(self, path: Path) -> None:
        self.path = path / "metadata.db"
        self.committed: list[list[Operation]] = []

    async def open(self) -> None:
        self.store = InterceptedStore(await EmbeddedStore.open(self.path, sync=False))
        await open_cluster(self.store)
        self.writer = MetadataWriter(self.store, MetadataCache(), TreeChanges(self.store))
        await self.writer.elect(1, 0)

        async def noted(multi: Multi, operations: Sequence[Operation]) -> Any:
            self.committed.append(list(operations))
            return await multi(operations)

        self.store.intercept("multi", noted)


@pytest.fixture
async def parts(tmp_path: Path) -> Any:
    made = Parts(tmp_path)
    await made.open()
    yield made
    await made.store.close()


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(0, 1, []), (5, 1, [5]), (6, 1, [5, 1]), (11, 1, [5, 5, 1]), (4, 400, [2, 2]), (2, 5000, [1, 1])],
)
async def test_no_transaction_has_too_many_operations_or_bytes(
    parts: Parts, count: int, size: int, expected: list[int]
) -> None:
    parts.writer.most_operations, parts.writer.most_bytes = 5, 1100
    operations = [Create(f"/admin/node{index}", b"x" * size) for index in range(count)]
    await parts.writer.commit_in_parts(operations)
    # Each of them checks that the controller is still the same.
    assert all(isinstance(each[0], Check) for each in parts.committed)
    assert [len(each) - 1 for each in parts.committed] == expected
    assert [each for part in parts.committed for each in part[1:]] == operations


async def test_what_was_committed_before_an_error_stays(parts: Parts) -> None:
    parts.writer.most_operations = 2
    await parts.store.create("/admin/c")
    with pytest.raises(NodeExistsError):
        await parts.writer.commit_in_parts([Create(f"/admin/{name}") for name in "abcd"])
    assert set(await parts.store.children("/admin")) >= {"a", "b"}
    assert await parts.store.exists("/admin/d") is None
