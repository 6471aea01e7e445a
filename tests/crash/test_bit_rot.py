"""Whatever file of a log directory rots, it loads.

No wrong byte is served as right, and no record is missed in silence.
"""

from __future__ import annotations

import collections
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.crash.bit_rot import Original, copy, examine, newest_times, spoil
from tests.crash.results import note

STATES = int(os.environ.get("KAFKAPY_ROT_STATES", "120"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["after-a-clean-stop", "after-a-crash"])
def test_rot_is_never_served_as_right(tmp_path: Path, clean: bool) -> None:
    chance = random.Random(f"{SEED} {clean}")
    original = Original.make(tmp_path / "original", clean=clean)
    assert examine(copy(original, tmp_path / "whole"), original).refused == 0
    by_kind: dict[str, list[Path]] = collections.defaultdict(list)
    for file in original.files():
        by_kind[file.suffix or file.name].append(file)
    refused = offline = undetected = 0
    for number in range(STATES // 2):
        kind = chance.choice([".log", *by_kind])
        spoiled = copy(original, tmp_path / f"state-{number}")
        what = spoil(spoiled / chance.choice(by_kind[kind]), chance)
        try:
            verdict = examine(spoiled, original)
        except Exception as error:
            raise AssertionError(f"KAFKAPY_SEED={SEED}, {what}: does not start: {error!r}") from error
        assert not verdict.wrong, f"KAFKAPY_SEED={SEED}, {what}: served as right: {verdict.wrong[:3]}"
        assert not verdict.silent, f"KAFKAPY_SEED={SEED}, {what}: lost in silence: {verdict.silent}"
        refused += verdict.refused
        offline += verdict.offline
        undetected += verdict.other_beginnings
        shutil.rmtree(spoiled)
    note(
        "R4",
        f"rotten files, {'after a clean stop' if clean else 'after a crash'}",
        tried=STATES // 2,
        kinds=sorted(by_kind),
        offsets_refused=refused,
        partitions_offline=offline,
        beginnings_that_no_checksum_covers=undetected,
    )


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["missing", "short", "zeros"])
def test_indexes_are_rebuilt_as_they_were(tmp_path: Path, suffix: str, how: str) -> None:
    original = Original.make(tmp_path / "original", clean=True)
    spoiled = copy(original, tmp_path / "spoiled")
    for file in spoiled.glob(f"*/*{suffix}"):
        data = file.read_bytes()
        if how == "missing":
            file.unlink()
        else:
            file.write_bytes(data[:-1] if how == "short" else bytes(len(data)))
    verdict = examine(spoiled, original)
    assert (verdict.wrong, verdict.silent, verdict.refused) == ([], [], 0)
    assert newest_times(spoiled) == newest_times(original.path)
    for name, content in original.indexes.items():
        assert (spoiled / name).read_bytes() == content, name
