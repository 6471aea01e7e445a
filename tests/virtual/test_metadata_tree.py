"""The tree in memory keeps the contract of every metadata tree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kafkapy.metadata.store import EventType, MetadataStore, WatchEvent
from kafkapy.virtual.metadata_tree import MemoryStore, MemoryTree
from tests.metadata import test_metadata_store as contract
from tests.metadata.test_metadata_store import OpenSession, open_session, store

__all__ = ["connect_store", "open_session", "store"]

globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


class _DirectLine:
    """A line without delay."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def to_tree(self, call: Callable[[], None]) -> None:
        call()

    def to_store(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)


async def test_a_server_that_is_behind_shows_less_until_a_sync() -> None:
    coming: list[Callable[[], None]] = []
    tree = MemoryTree(servers=2, later=coming.append)
    writer, reader = MemoryStore(tree, _DirectLine()), MemoryStore(tree, _DirectLine())
    await writer.create("/a")
    assert await writer.exists("/a") is not None
    assert await reader.exists("/a") is None
    await reader.sync()
    assert await reader.exists("/a") is not None
    heard: list[WatchEvent] = []
    await reader.watch("/a", heard.extend)
    await writer.set("/a", b"1")
    await reader.exists("/a")
    assert heard == []
    coming[-1]()
    await reader.exists("/a")
    assert heard == [WatchEvent(EventType.CHANGED, "/a")]


@pytest.fixture
def connect_store() -> OpenSession:
    """Opens a session with one tree in memory."""
    tree = MemoryTree()

    async def open_one() -> MetadataStore:
        return MemoryStore(tree, _DirectLine())

    return open_one
