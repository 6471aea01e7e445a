"""A migration of a directory: one broker fills it; after the migration the other opens it.

The other broker must show the same as the first one: as that showed before it stopped, or, if it was killed,
after it recovered a copy of the directory.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from interop.migrate.contents import fill, writing
from interop.migrate.inventory import Inventory, differences, digest, records_by_place, take_inventory
from interop.migrate.producers import (
    check_duplicates_are_known,
    check_new_producer_id_is_unused,
    producer_states,
)
from interop.migrate.torn_ends import tear_ends
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperKafkaProcess
from kafkapy.tools.migrate.zookeeper import connected
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

_CHECKOUT = Path(__file__).resolve().parents[2]

PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "200",
    "transaction.state.log.num.partitions": "5",
}
ZOOKEEPER_SESSION = {"zookeeper.session.timeout.ms": "4000"}
MANY_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
"""Makes Kafka write a snapshot, so that not all metadata is in the log."""
AT_REST = {"log.cleaner.enable": "false"}
"""Keeps a broker from compacting logs while they are read."""


class MakeServer(Protocol):
    """Makes a broker in a folder, with additional settings."""

    def __call__(self, folder: Path, settings: Mapping[str, str] = AT_REST, /) -> ServerProcess: ...


def kafkapy(folder: Path, settings: Mapping[str, str] = AT_REST, /) -> ServerProcess:
    return KafkapyProcess(folder, properties={**PROPERTIES, **settings})


def kafka(release: str) -> MakeServer:
    """Apache Kafka in KRaft mode."""

    def make(folder: Path, settings: Mapping[str, str] = AT_REST, /) -> ServerProcess:
        properties = {**PROPERTIES, **MANY_SNAPSHOTS, **settings}
        return KafkaProcess(folder, release=release, heap="512m", properties=properties)

    return make


def kafka_as_told(release: str, told: str) -> MakeServer:
    """Apache Kafka in KRaft mode, with the settings that an export printed, on other ports."""
    settings = dict(line.strip().split("=", 1) for line in told.splitlines() if line.startswith("  "))

    def make(folder: Path, more: Mapping[str, str] = AT_REST, /) -> ServerProcess:
        server = KafkaProcess(folder, release=release, heap="512m", properties={**PROPERTIES, **more})
        assert settings.pop("log.dirs") == str(server.data)
        settings["listeners"] = server.properties["listeners"]
        controller = settings["listeners"].rpartition("/")[2]
        settings["controller.quorum.bootstrap.servers"] = controller
        for name in ("controller.quorum.voters", "listener.security.protocol.map"):
            del server.properties[name]
        server.properties |= settings
        return server

    return make


def kafka_with(zookeeper: str) -> MakeServer:
    """Apache Kafka 3.9.1 in ZooKeeper mode."""

    def make(folder: Path, settings: Mapping[str, str] = AT_REST, /) -> ServerProcess:
        properties = {**PROPERTIES, **ZOOKEEPER_SESSION, **settings}
        return ZooKeeperKafkaProcess(folder, zookeeper, properties=properties)

    return make


@dataclass
class Departed:
    """A directory whose broker is gone, and what it held."""

    data: Path
    inventory: Inventory
    acknowledged: dict[tuple[int, int], bytes]
    """Records of `tail`, by partition and offset."""
    closed: Path
    """The directory, or a copy of it, that its own broker stopped cleanly."""


def depart(
    make: MakeServer,
    folder: Path,
    *,
    killed: bool,
    transactions: bool,
    torn: bool = False,
    modern: bool = False,
    seed: int = 1,
) -> Departed:
    """Start a broker in `folder`, fill it, and stop it, or kill it while producers write.

    With `torn` the ends of its logs are then damaged as by a power cut. Both brokers must truncate them at
    the same offset.
    """
    server = make(folder / "home", {}).start()
    data = folder / "home" / "data"
    try:
        fill(server.bootstrap_servers, transactions=transactions, modern_groups=modern, seed=seed)
        if not killed:
            wait_until(lambda: _is_compacted(data), timeout=60, ignoring=FileNotFoundError)
            inventory = take_inventory(server.bootstrap_servers)
            return Departed(data, inventory, {}, data)
        with writing(server.bootstrap_servers, seed) as acknowledged:
            enough = random.Random(seed).randrange(500, 5000)
            wait_until(lambda: len(acknowledged.records) >= enough, pause=0.001)
            server.kill()
    finally:
        server.stop()
    if torn:
        tear_ends(data, seed)
    # A broker that was killed leaves its socket, which is no file that Python can copy.
    shutil.copytree(data, folder / "reference" / "data", ignore=shutil.ignore_patterns(".kafkapy_control"))
    if isinstance(server, ZooKeeperKafkaProcess):
        _wait_until_gone(server.properties["zookeeper.connect"])
    reference = make(folder / "reference").start()
    try:
        promised = {} if torn else acknowledged.records
        inventory = take_inventory(reference.bootstrap_servers)
        return Departed(data, inventory, promised, folder / "reference" / "data")
    finally:
        reference.stop()


def import_and_check(departed: Departed, folder: Path, *options: str, but: tuple[str, ...] = ()) -> str:
    """Import the directory, open it and compare; return the output of the import."""
    before = files_of(departed.data)
    told = run_kafkapy("import", departed.data, folder / "here" / "data", *options)
    assert files_of(departed.data) == before
    with kafkapy(folder / "here") as server:
        check_arrival(departed, take_inventory(server.bootstrap_servers), but=but)
        assert check_duplicates_are_known(server.bootstrap_servers, folder / "here" / "data")
        check_new_producer_id_is_unused(server.bootstrap_servers, folder / "here" / "data")
    check_producers(departed, folder / "here" / "data")
    return told


def check_producers(departed: Departed, data: Path) -> None:
    """Check that the other broker knows the same producers, after a clean stop."""
    before, after = producer_states(departed.closed), producer_states(data)
    assert before == after
    assert any(before.values())


def _is_compacted(data: Path) -> bool:
    """Return whether the cleaner has compacted all closed segments of `compacted`."""
    lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()
    active = max((data / "compacted-0").glob("*.log")).stem
    return f"compacted 0 {int(active)}" in lines


def _wait_until_gone(zookeeper: str) -> None:
    """Wait until the session of a killed broker has expired in ZooKeeper."""
    with connected(zookeeper) as client:
        wait_until(lambda: not client.get_children("/brokers/ids"))


def check_arrival(departed: Departed, inventory: Inventory, *, but: tuple[str, ...] = ()) -> None:
    """Check that nothing differs, except lines that begin with `but`."""
    found = [line for line in differences(departed.inventory, inventory) if not line.startswith(but)]
    assert not found, "\n".join(line[:300] for line in found)
    places = records_by_place(inventory, "tail")
    lost = {place for place, value in departed.acknowledged.items() if places.get(place) != digest(value)}
    assert not lost, f"{len(lost)} of {len(departed.acknowledged)} acknowledged records, such as {min(lost)}"


def run_kafkapy(*arguments: object) -> str:
    """Run `kafkapy ARGUMENTS`, and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkapy", *map(str, arguments)],
        cwd=_CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


def files_of(folder: Path) -> dict[str, bytes]:
    """Return every file of a directory with its content, to check that nothing changes it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
