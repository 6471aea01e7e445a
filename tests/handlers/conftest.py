"""Fixtures for tests of the administration requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.handlers.admin_world import AdminWorld

StartWorld = Callable[..., Awaitable[AdminWorld]]


@pytest.fixture
async def start_world(tmp_path: Path) -> AsyncIterator[StartWorld]:
    """Starts a broker without logs, with these settings; it advertises `host`."""
    worlds: list[AdminWorld] = []

    async def start(host: str = "localhost", **settings: str) -> AdminWorld:
        world = AdminWorld(tmp_path, settings, host)
        worlds.append(world)
        await world.start()
        return world

    yield start
    for world in worlds:
        await world.admin.stop()
        await world.store.close()
