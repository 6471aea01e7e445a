"""A broker that is killed at any moment starts again and has lost nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.crash.kill_harness import run

KILLS = int(os.environ.get("KAFKAPY_KILLS", "20"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    result = run(tmp_path / "data", kills=KILLS, seed=SEED)
    print(result)
    assert not result.findings, "\n".join([f"KAFKAPY_SEED={SEED}", *map(str, result.findings[:20])])
    assert result.kills == KILLS
    assert result.acked > KILLS * 20
    assert result.slowest_start <= 3.0
