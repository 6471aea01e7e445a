"""A broker whose machine loses its power starts again and has lost nothing.

It uses a real file system.

Needs root and a kernel that mounts disk images; skipped with the reason elsewhere.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.crash.kill_harness import SETTINGS, run
from tests.crash.load import RecordingProducer, create_topic, read_pass
from tests.crash.loop_disk import LoopDisk, why_not
from tests.crash.power_scenes import SCENES, broker_on, lose_power
from tests.crash.results import note
from tests.promises.checker import check
from tests.promises.history import Anomaly, History

CUTS = int(os.environ.get("KAFKAPY_POWER_CUTS", "8"))
"""Under load; a scene plays a quarter as often."""
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))


def skip_without(file_system: str) -> None:
    reason = why_not(file_system)
    if reason:
        pytest.skip(reason)


@pytest.mark.slow
@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_nothing_acknowledged_is_lost_when_the_power_is_cut_under_load(
    tmp_path: Path, file_system: str
) -> None:
    skip_without(file_system)
    with LoopDisk(tmp_path, file_system=file_system) as disk:
        broker = broker_on(disk, tmp_path, SETTINGS)
        result = run(broker, ends=CUTS, seed=SEED, end=lambda: lose_power(disk, broker))
    print(result)
    note("R2", f"power cuts under load, {file_system}", tried=result.ends, acknowledged=result.acked)
    assert not result.findings, "\n".join([f"KAFKAPY_SEED={SEED}", *map(str, result.findings[:20])])
    assert result.ends >= CUTS


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_nothing_acknowledged_is_lost_when_the_power_is_cut_at_a_bad_moment(
    tmp_path: Path, name: str
) -> None:
    skip_without("ext4")
    chance = random.Random(f"{SEED} {name}")
    times = max(1, CUTS // 4)
    acknowledged = 0
    for turn in range(times):
        try:
            acknowledged += SCENES[name](tmp_path / f"turn-{turn}", chance)
        except AssertionError as error:
            raise AssertionError(f"KAFKAPY_SEED={SEED}, turn {turn}: {error}") from error
    note("R2", f"power cuts during {name}", tried=times, acknowledged=acknowledged)


def test_what_a_power_cut_takes_from_a_broker_that_does_not_sync_is_noticed(tmp_path: Path) -> None:
    skip_without("ext4")
    partition = ("topic", 0)
    history: History = []
    with (
        LoopDisk(tmp_path) as disk,
        broker_on(disk, tmp_path, {"durability": "os"}) as broker,
    ):
        create_topic(broker.bootstrap_servers, partition[0], 1, {})
        producer = RecordingProducer("p", broker.bootstrap_servers, history, idempotent=True)
        for number in range(100):
            producer.send(partition, b"%d" % number)
        producer.flush()
        lose_power(disk, broker)
        broker.start()
        create_topic(broker.bootstrap_servers, partition[0], 1, {})
        read_pass(broker.bootstrap_servers, "reader", {partition: 0}, history)
    assert Anomaly.LOST_ACKED in {finding.anomaly for finding in check(history)}
