"""Fixtures of the tests of replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.replicas.cluster_rig import Rig


@pytest.fixture
async def rigs() -> AsyncIterator[list[Rig]]:
    """The clusters of a test, which are stopped after it."""
    made: list[Rig] = []
    yield made
    for rig in made:
        await rig.close()
