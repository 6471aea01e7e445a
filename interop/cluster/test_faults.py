"""Three brokers under every fault that this machine can make.

What their clients saw is the judge.

KAFKAPY_FAULT_RUNS runs of KAFKAPY_FAULT_SECONDS each, by KAFKAPY_SEED. The first of three has one fault
after another, the others many at once; every second one has an ensemble of three ZooKeepers. What a failed
run leaves is kept in .cache/faults.
"""

from __future__ import annotations

import os
import pickle
import shutil
import time
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.cluster.load import Load, client_logger
from interop.cluster.nemesis import Happened, Nemesis
from interop.cluster.scene import Scene
from interop.cluster.verdict import complaints, last_words, wait_until_equal, wait_until_whole
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.network_namespaces import why_not
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import RELEASE
from tests.crash.results import note

RUNS: Final = int(os.environ.get("KAFKAPY_FAULT_RUNS", "6"))
SECONDS: Final = float(os.environ.get("KAFKAPY_FAULT_SECONDS", "60"))
SEED: Final = int(os.environ.get("KAFKAPY_SEED", "2026"))
QUIET_SECONDS: Final = 10.0
"""At the end of a run, without faults: every partition is written to."""
WHOLE_SECONDS: Final = 60.0
"""How long it may take until all replicas are in sync."""
LEAST_ACKS: Final = 100
"""While one fault is there that leaves a majority."""
TOPIC: Final = "orders"
PARTITIONS: Final = 6
CLIENTS_LOG: Final = "clients.log"
KEPT: Final = Path(__file__).resolve().parents[2] / ".cache" / "faults"


class Timeline:
    """What happened, and when."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        clock = time.strftime("%H:%M:%S")
        self.lines.append(f"{clock} {time.monotonic() - self._began:6.1f} s  {line}")

    def __str__(self) -> str:
        return "\n".join(self.lines)


@pytest.mark.slow
@pytest.mark.parametrize("run", range(RUNS))
def test_nothing_acknowledged_is_lost_under_any_fault(run: int, tmp_path: Path) -> None:
    with skipped_without_jars():
        kafka_jars(RELEASE)
    seed, timeline = SEED + run, Timeline()
    timeline(f"seed {seed}; network namespaces: {why_not() or 'yes'}")
    with Scene(tmp_path / "scene", zookeepers=3 if run % 2 else 1) as scene:
        admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result()
        scene.cluster.wait_until_in_sync(TOPIC)
        wait_until_whole(scene, WHOLE_SECONDS)  # a broker may hear of the topic a little later than others
        logger = client_logger(scene.folder / CLIENTS_LOG)
        load = Load(
            scene.cluster.bootstrap_servers, TOPIC, PARTITIONS, seed=seed, log=timeline, logger=logger
        )
        load.start()
        try:
            judge(scene, load, Nemesis(scene, seed, timeline), timeline, alone=run % 3 == 0)
        except BaseException:
            keep(scene, load, timeline, seed)
            raise
        finally:
            print(timeline)


def judge(scene: Scene, load: Load, nemesis: Nemesis, timeline: Timeline, *, alone: bool) -> None:
    """Let the nemesis act, heal everything, and find nothing wrong."""
    history = load.history
    wait_until(lambda: history.acks_between(0, time.monotonic()), timeout=60)
    began = time.monotonic()
    happened: list[Happened] = []
    if alone:
        happened = nemesis.one_after_another(SECONDS, lambda: wait_until_whole(scene, WHOLE_SECONDS))
    else:
        nemesis.all_at_once(SECONDS)
    nemesis.heal_all()
    healed = time.monotonic()
    timeline("all is healed")
    wait_until_whole(scene, WHOLE_SECONDS)
    whole, rebalances = time.monotonic(), load.rebalances
    timeline("all replicas are in sync")
    wait_until(lambda: time.monotonic() >= whole + QUIET_SECONDS)
    rebalances = load.rebalances - rebalances
    quiet_pauses = history.longest_pauses(whole, time.monotonic())
    findings = last_words(scene, load)
    acknowledged = history.acks_between(0, time.monotonic())
    timeline(f"{acknowledged} records acknowledged; whole after {whole - healed:.1f} s;")
    timeline(f"afterwards pauses of {max(quiet_pauses.values()):.1f} s, {rebalances} assignments")
    stalled = []
    for each in happened:
        acks = history.acks_between(each.start, each.end)
        pauses = sorted(history.longest_pauses(each.start, each.whole).values())
        timeline(f"{each.name}: {acks} acks, pauses {', '.join(f'{pause:.1f}' for pause in pauses)} s")
        if each.leaves_majority and acks < LEAST_ACKS:
            stalled.append(each.name)
    note(
        "R14",
        "faults with real processes",
        tried=1,
        acknowledged=acknowledged,
        lost=sum(each.anomaly.name in ("LOST_ACKED", "READ_THEN_VANISHED") for each in findings),
        seconds=round(healed - began),
        until_whole_s=round(whole - healed, 1),
        longest_pause_s=round(max(history.longest_pauses(began, whole).values()), 1),
        faults=sorted(nemesis.counts),
    )
    assert findings == []
    assert load.problems() == []
    assert nemesis.died == []
    assert complaints(scene) == []
    wait_until_equal(scene, load.partitions)
    assert stalled == []
    assert [each.name for each in happened if not each.was_replaced] == []
    assert max(quiet_pauses.values()) < QUIET_SECONDS


def keep(scene: Scene, load: Load, timeline: Timeline, seed: int) -> None:
    """Keep what shows why a run failed."""
    folder = KEPT / f"{time.strftime('%H%M%S')}-{seed}"
    folder.mkdir(parents=True)
    for server in scene.servers():
        shutil.copy(server.log_path, folder / f"{server.log_path.parent.name}.out")
    shutil.copy(scene.folder / CLIENTS_LOG, folder)
    for number, broker in scene.brokers.items():
        shutil.copytree(broker.data, folder / f"data-{number}", ignore=shutil.ignore_patterns(".*"))
    timeline(f"clients: {load.problems()}; kept in {folder}")
    load.abandon()
    with (folder / "history.pickle").open("wb") as file:
        pickle.dump((list(load.history), load.history.times), file)
    (folder / "timeline.txt").write_text(f"{timeline}\n")
