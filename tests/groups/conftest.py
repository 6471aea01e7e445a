from __future__ import annotations

import pytest

from tests.groups.classic_world import ClassicWorld


@pytest.fixture
async def cluster() -> ClassicWorld:
    return await ClassicWorld().start()
