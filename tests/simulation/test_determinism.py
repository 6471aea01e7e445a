"""A run depends on its seed, and on nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.command import SCENES
from tests.simulation.run import simulate

SEED = 5

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("scene", sorted(SCENES))
def test_the_same_seed_gives_the_same_run(scene: str) -> None:
    first = simulate(SCENES[scene], SEED)
    assert first.events > 500
    assert simulate(SCENES[scene], SEED) == first
    assert simulate(SCENES[scene], SEED + 1).fingerprint != first.fingerprint


@pytest.mark.parametrize("scene", sorted(SCENES))
def test_a_run_does_not_depend_on_the_order_of_sets(scene: str) -> None:
    code = (
        "from tests.simulation.command import SCENES\n"
        "from tests.simulation.run import simulate\n"
        f"print(simulate(SCENES[{scene!r}], {SEED}).fingerprint)"
    )
    fingerprints = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(fingerprints) == 1
