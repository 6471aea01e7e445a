from __future__ import annotations

import pytest

from tests.groups.coordinator_world import Cluster


@pytest.fixture
async def cluster() -> Cluster:
    return await Cluster().start()
