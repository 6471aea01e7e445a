"""The tree of the simulation keeps the contract of every metadata tree."""

from __future__ import annotations

import pytest

from kafkapy.metadata.store import MetadataStore
from tests.metadata import test_metadata_store as contract
from tests.metadata.test_metadata_store import OpenSession, open_session, store
from tests.simulation.metadata_tree import DirectLine, MemoryStore, MemoryTree

__all__ = ["connect_store", "open_session", "store"]

globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


@pytest.fixture
def connect_store() -> OpenSession:
    """Opens a session with one tree in memory."""
    tree = MemoryTree()

    async def open_one() -> MetadataStore:
        return MemoryStore(tree, DirectLine())

    return open_one
