"""The seeds of a test run."""

from __future__ import annotations

import os
from typing import Final

import pytest

from kafkapy.virtual.world import SimulationError
from tests.simulation.bugs import Bug
from tests.simulation.run import Scene, simulate

SEEDS: Final = int(os.environ.get("KAFKAPY_SIMULATED_SEEDS", "500"))
"""The runs of all scenes together."""

SHARES: Final = {"deposed": 14, "one": 19, "three": 17}
"""Of 50 runs, those of each scene. One of `three` takes as long as four others."""

SEEDS_IN_A_CHUNK: Final = 10

SEEDS_TO_FIND_A_BUG: Final = 80


def chunks_of(scene: str) -> range:
    """The tests of a scene."""
    return range(max(1, SEEDS * SHARES[scene] // (50 * SEEDS_IN_A_CHUNK)))


def seeds_of(chunk: int) -> range:
    """The seeds of one test."""
    return range(chunk * SEEDS_IN_A_CHUNK, (chunk + 1) * SEEDS_IN_A_CHUNK)


def require_found(bug: Bug, scene: Scene) -> None:
    """Fail if no seed finds a planted bug."""
    for seed in range(SEEDS_TO_FIND_A_BUG):
        try:
            with bug():
                simulate(scene, seed)
        except SimulationError:
            return
    pytest.fail(f"{SEEDS_TO_FIND_A_BUG} runs found nothing")
