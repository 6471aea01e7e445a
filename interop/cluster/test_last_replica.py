"""The last replica in sync loses its power, and the others are back first (KIP-966).

Each broker has a disk of its own, a real file system. A producer continues until one replica is left in sync,
and that one's machine goes down. Nobody leads until it is back, and then nothing that was acknowledged is
missing.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from interop.cluster.conftest import StartCluster
from interop.support.cluster_processes import ClusterProcesses
from interop.support.waiting import wait_until
from tests.crash.load import RecordingProducer, random_value, read_pass
from tests.crash.loop_disk import LoopDisk, why_not
from tests.crash.power_scenes import lose_power
from tests.crash.results import note
from tests.promises.checker import check
from tests.promises.history import Acked, Anomaly, History
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not() or "")]

CUTS = int(os.environ.get("KAFKAPY_LAST_REPLICA_CUTS", "2"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
BROKERS = (1, 2, 3)
TOPIC = "t"
PLACE = (TOPIC, 0)
UNCLEAN = "unclean.leader.election.enable"


class Machines:
    """Three brokers, each on a disk of its own, and what a producer of theirs knows."""

    def __init__(self, start_cluster: StartCluster, disks: Mapping[int, LoopDisk], **properties: str) -> None:
        self.history = History()
        self._disks = disks
        self._chance = random.Random(SEED)
        self.brokers: dict[int, KafkapyProcess] = {}
        self.cluster: ClusterProcesses = start_cluster(
            len(BROKERS), make=self._make, auto_leader_rebalance_enable="false", **properties
        )
        new = NewTopic(TOPIC, 1, replica_assignment=[list(BROKERS)])
        client = self.admin()
        client.create_topics([new])[TOPIC].result(60)
        self.cluster.wait_until_in_sync(TOPIC, timeout=60)
        self.producer = RecordingProducer(
            "p", self.cluster.bootstrap_servers, self.history, idempotent=True, more={"message.timeout.ms": 0}
        )

    def _make(self, folder: Path, properties: Mapping[str, str]) -> ServerProcess:
        number = int(properties["broker.id"])
        data = self._disks[number].path / "data"
        self.brokers[number] = KafkapyProcess(folder, properties=properties, data=data)
        return self.brokers[number]

    def admin(self) -> AdminClient:
        """A client that knows the present controller."""
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})

    def leader(self) -> int:
        """The id of the leader, as soon as there is one."""
        found: int = wait_until(lambda: max(self.cluster.leader(TOPIC), 0), timeout=60, ignoring=KeyError)
        return found

    def wait_for_no_leader(self) -> None:
        """Wait until all brokers that run know that nobody leads."""
        for broker in self.brokers.values():
            if broker.running:
                client = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
                wait_until(lambda client=client: leader_of(client) == -1, timeout=60)  # type: ignore[misc]

    def acknowledged(self) -> int:
        return sum(isinstance(event, Acked) for event in self.history)

    def write(self, records: int) -> None:
        """Send records; some of them may not be acknowledged yet."""
        for _ in range(records):
            self.producer.send(PLACE, random_value(self._chance, 2000))
            self.producer.poll()

    def in_sync(self) -> set[int]:
        return set(self.cluster.topic(TOPIC).partitions[0].isrs)

    def leave_one_in_sync(self, last: int) -> list[int]:
        """Kill the others, which are returned."""
        others = [number for number in BROKERS if number != last]
        self._chance.shuffle(others)
        for number in others:
            self.brokers[number].kill()
        wait_until(lambda: self.in_sync() == {last}, timeout=60)
        assert self.leader() == last
        return others

    def lose_power(self, number: int) -> None:
        """The machine goes down and comes up again, without its broker."""
        lose_power(self._disks[number], self.brokers[number])

    def start(self, numbers: list[int]) -> None:
        """Start brokers; return when all brokers that run are known."""
        for number in numbers:
            self.brokers[number].start(timeout=60)
        running = {number for number, broker in self.brokers.items() if broker.running}
        wait_until(lambda: set(self.cluster.metadata().brokers) == running, timeout=60)

    def says(self, words: str, numbers: list[int]) -> bool:
        """Whether the log of one of these brokers has the words."""
        return any(words in self.brokers[number].log_path.read_text() for number in numbers)

    def findings(self) -> list[Anomaly]:
        """What is wrong with what clients were told, after all is read once more."""
        read_pass(self.cluster.bootstrap_servers, f"reader-{len(self.history)}", {PLACE: 0}, self.history)
        return [finding.anomaly for finding in check(self.history)]


def leader_of(client: AdminClient) -> int:
    """The leader, as this client is told; -1 without one."""
    return int(client.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[int, LoopDisk]]:
    with ExitStack() as stack:
        yield {
            number: stack.enter_context(LoopDisk(tmp_path / f"disk-{number}", megabytes=64))
            for number in BROKERS
        }


def test_nobody_leads_before_the_last_replica_in_sync_is_back(
    disks: dict[int, LoopDisk], start_cluster: StartCluster
) -> None:
    print(f"KAFKAPY_SEED={SEED}")
    machines = Machines(start_cluster, disks)
    cluster = machines.cluster
    for _ in range(CUTS):
        machines.write(200)
        machines.producer.flush()
        machines.write(50)
        last = machines.leader()
        others = machines.leave_one_in_sync(last)
        machines.write(50)
        machines.lose_power(last)
        machines.start(others)
        machines.wait_for_no_leader()
        assert machines.in_sync() == {last}
        machines.start([last])
        cluster.wait_until_in_sync(TOPIC, timeout=120)
        machines.producer.flush()
    findings = machines.findings()
    note("R18", "power cuts of the last replica in sync", tried=CUTS, acknowledged=machines.acknowledged())
    assert not findings, findings


def test_an_unclean_election_is_held_only_if_the_topic_allows_it_and_said(
    disks: dict[int, LoopDisk], start_cluster: StartCluster
) -> None:
    machines = Machines(start_cluster, disks)
    machines.write(200)
    machines.producer.flush()
    last = machines.leader()
    others = machines.leave_one_in_sync(last)
    machines.lose_power(last)
    machines.start(others)
    machines.wait_for_no_leader()
    assert not machines.says("Unclean election", others)
    change = ConfigEntry(UNCLEAN, "true", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[change])
    client = machines.admin()
    client.incremental_alter_configs([resource])[resource].result(60)
    leader = machines.leader()
    assert machines.says(
        f"Unclean election: broker {leader} leads {TOPIC}-0 though it is not in sync", others
    )


def test_what_the_last_replica_loses_that_does_not_sync_is_noticed(
    disks: dict[int, LoopDisk], start_cluster: StartCluster
) -> None:
    machines = Machines(start_cluster, disks, durability="os")
    machines.write(200)
    machines.producer.flush()
    last = machines.leader()
    others = machines.leave_one_in_sync(last)
    machines.lose_power(last)
    machines.start([last, *others])
    machines.cluster.wait_until_in_sync(TOPIC, timeout=120)
    assert Anomaly.LOST_ACKED in machines.findings()
