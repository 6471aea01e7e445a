"""`kafkapy backup` and `kafkapy restore`, of brokers that run, stop and are lost."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

import kafkapy
from kafkapy.cli import main
from kafkapy.snapshot import SnapshotError, short_path, taken_by_broker
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.snapshots.stopped import Part, parts_of
from kafkapy.tools.backup.manifest import moment
from kafkapy.tools.backup.saving import save
from kafkapy.tools.backup.store import open_store
from tests.servers.kafkapy_process import KafkapyProcess
from tests.tools.backup.odd_store import before_requests

SECONDS = 180


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def done(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def values(path: Path, topic: str = "orders") -> list[bytes | None]:
    with kafkapy.Broker(snapshot=path) as broker:
        return [record.value for record in broker.records(topic)]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} is missing"
        time.sleep(0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KafkapyProcess]:
    with KafkapyProcess(tmp_path / "server") as started:
        wait_for(started.data / ".kafkapy_control")
        yield started


class Load:
    """A producer of records, one of transactions, and a group that commits what it has read."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.servers = {"bootstrap.servers": bootstrap_servers}
        topics = [NewTopic(name, num_partitions=3) for name in ("orders", "moves")]
        admin = AdminClient(self.servers)
        for made in admin.create_topics(topics).values():
            made.result(SECONDS)
        self.acknowledged: list[int] = []
        self.committed: list[int] = []
        """The numbers of transactions that were committed: each writes its number to two partitions."""
        self.offsets: list[int] = []
        """Committed offsets of orders-0."""
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=each) for each in (self._write, self._transact, self._consume)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def wait(self) -> None:
        """Wait until all three have done something more."""
        before = len(self.acknowledged) + 20, len(self.committed) + 2, len(self.offsets) + 1
        deadline = time.monotonic() + SECONDS
        while any(
            len(a) < b for a, b in zip((self.acknowledged, self.committed, self.offsets), before, strict=True)
        ):
            assert time.monotonic() < deadline, "the load does not continue"
            time.sleep(0.01)

    def _write(self) -> None:
        producer = Producer({**self.servers, "acks": "all", "linger.ms": 0})
        number = 0
        while not self._is_over.is_set():
            producer.produce("orders", value=str(number).ljust(2_000), partition=number % 3)
            if producer.flush(2) == 0:
                self.acknowledged.append(number)
                number += 1
        producer.purge()

    def _transact(self) -> None:
        producer = Producer({**self.servers, "transactional.id": "mover"})
        producer.init_transactions(SECONDS)
        number = 0
        while not self._is_over.is_set():
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("moves", value=str(number), partition=partition)
            try:
                producer.commit_transaction(2)
            except Exception:  # the machine is lost
                return
            self.committed.append(number)
            number += 1

    def _consume(self) -> None:
        """Commit by an admin client, in a limited time: that of a consumer has no limit."""
        settings = {"group.id": "readers", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer, admin = Consumer({**self.servers, **settings}), AdminClient(self.servers)
        consumer.assign([TopicPartition("orders", 0, 0)])
        while not self._is_over.is_set():
            if (record := consumer.poll(0.2)) is None or record.error() is not None:
                continue
            offset = TopicPartition("orders", 0, (record.offset() or 0) + 1)
            offsets = [ConsumerGroupTopicPartitions("readers", [offset])]
            committed = admin.alter_consumer_group_offsets(offsets, request_timeout=2)["readers"]
            try:
                committed.result(SECONDS)
            except KafkaException:  # the machine is lost, or slow
                continue
            self.offsets.append(offset.offset)
        consumer.close()


def test_a_machine_that_is_lost_under_load_comes_back_as_of_its_last_backup(
    server: KafkapyProcess, tmp_path: Path
) -> None:
    data = tmp_path / "server" / "data"
    with Load(server.bootstrap_servers) as load:
        for _ in range(3):
            load.wait()
            known = list(load.acknowledged), list(load.committed), list(load.offsets)
            subprocess.run(
                [sys.executable, "-m", "kafkapy", "backup", "--data", data, tmp_path / "store"], check=True
            )
        load.wait()
        server.kill()
        shutil.rmtree(data)

    done("restore", tmp_path / "store", tmp_path / "new")
    assert "nothing is wrong" in done("check", "--deep", tmp_path / "new")
    acknowledged, committed, offsets = known
    with kafkapy.Broker(snapshot=tmp_path / "new") as broker:
        orders = [int(record.value or b"") for record in broker.records("orders")]
        assert sorted(orders) == list(range(max(orders) + 1))
        assert set(acknowledged) <= set(orders)
        moves: list[list[int]] = [[], []]
        for record in broker.records("moves"):
            moves[record.partition].append(int(record.value or b""))
        assert moves[0] == moves[1] == list(range(len(moves[0])))
        assert set(committed) <= set(moves[0])
        ends = [record.offset for record in broker.records("orders") if record.partition == 0]
        offset = broker.group("readers").committed("orders", 0, offsets[-1])
        assert offsets[-1] <= offset <= ends[-1] + 1
        again = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "mover"})
        again.init_transactions(SECONDS)
        again.begin_transaction()
        again.produce("moves", value="-1", partition=2)
        again.commit_transaction(SECONDS)


def test_the_next_backup_brings_only_what_is_new(tmp_path: Path) -> None:
    brought = []
    for number in range(3):
        with kafkapy.Broker(data_dir=tmp_path / "data", config={"log.segment.bytes": 1 << 20}) as broker:
            for _ in range(3 if number else 20):
                broker.produce("orders", value=uuid.uuid4().bytes * 12_500)
        done("backup", "--data", tmp_path / "data", tmp_path / "store")
        found = (each.stat().st_size for each in (tmp_path / "store" / "files").rglob("*") if each.is_file())
        brought.append(sum(found))
    assert brought[0] > 4_000_000
    assert brought[2] - brought[1] < 2_000_000
    done("restore", tmp_path / "store", tmp_path / "new")
    assert len(values(tmp_path / "new")) == 26


def test_each_backup_can_be_restored(tmp_path: Path) -> None:
    moments = []
    for value in ("one", "two", "three"):
        with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
            broker.produce("orders", value=value)
        said = done("backup", "--data", tmp_path / "data", f"memory://{tmp_path.name}")
        moments.append(said.split(" as of ")[1].split(": ")[0])
    for count, each in enumerate(moments, 1):
        done("restore", "--at", each, f"memory://{tmp_path.name}", tmp_path / each)
        assert values(tmp_path / each) == [b"one", b"two", b"three"][:count]
    result = run("restore", "--at", "2020-01-01", f"memory://{tmp_path.name}", tmp_path / "new")
    assert f"or before: the first is of {moments[0]}" in result.stderr


def test_what_was_damaged_in_the_store_is_not_restored(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        broker.produce("orders", value="x" * 1000)
    done("backup", "--data", tmp_path / "data", tmp_path / "store")
    largest = max(
        (tmp_path / "store" / "files").rglob("*"), key=lambda each: each.is_file() and each.stat().st_size
    )
    largest.write_bytes(b"x" + largest.read_bytes()[1:])
    assert "is damaged in the store" in run("restore", tmp_path / "store", tmp_path / "new").stderr
    assert not (tmp_path / "new").exists()
    (manifest,) = (tmp_path / "store" / "backups").iterdir()
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 9}))
    assert "has format 9" in run("restore", tmp_path / "store", tmp_path / "new").stderr
    manifest.write_text("{")
    assert "is damaged: " in run("restore", tmp_path / "store", tmp_path / "new").stderr


@pytest.mark.parametrize("outside", ["../escaped", "/tmp/escaped", "a/../../escaped", "a//b"])
def test_a_backup_writes_nothing_outside_of_the_new_directory(tmp_path: Path, outside: str) -> None:
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        broker.produce("orders", value="two apples")
    done("backup", tmp_path / "store", "--data", tmp_path / "data")
    (path,) = (tmp_path / "store/backups").iterdir()
    manifest = json.loads(path.read_text())
    manifest["files"][outside] = manifest["files"].pop("metadata.db")
    path.write_text(json.dumps(manifest))
    assert "is outside of the data directory" in run("restore", tmp_path / "store", tmp_path / "new").stderr
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "escaped").exists()


def test_what_cannot_be_done_is_one_line(tmp_path: Path) -> None:
    assert "has no metadata.db" in run("backup", "--data", tmp_path, tmp_path / "store").stderr
    assert "has no backups" in run("restore", tmp_path / "store", tmp_path / "new").stderr
    assert "exists: name a new directory" in run("restore", tmp_path / "store", tmp_path).stderr
    assert "cannot be used" in run("restore", "nowhere://x", tmp_path / "new").stderr
    with kafkapy.Broker(data_dir=tmp_path / "data"):
        result = run("backup", "--data", tmp_path / "data", tmp_path / "store")
        assert "does not answer" in result.stderr
        assert "brokers in test processes have no such socket" in result.stderr
    done("backup", "--data", tmp_path / "data", tmp_path / "store")
    assert "expected a time" in run("restore", "--at", "soon", tmp_path / "store", tmp_path / "new").stderr


def connected(data: Path) -> socket.socket:
    """A connection to the broker's socket for snapshots."""
    connection = socket.socket(socket.AF_UNIX)
    with short_path(data / ".kafkapy_control") as path:
        connection.connect(path)
    return connection


def test_a_snapshot_that_a_command_has_asked_for_goes_with_its_connection(server: KafkapyProcess) -> None:
    data = server.data
    with connected(data) as connection:
        connection.sendall(b"snapshot\n")
        answer = json.loads(connection.makefile("rb").readline())
        taken = Path(answer["paths"][0])
        assert (taken / "metadata.db").is_file()
    deadline = time.monotonic() + SECONDS
    while taken.exists():
        assert time.monotonic() < deadline, "the snapshot stays"
        time.sleep(0.01)
    with connected(data) as connection:
        connection.sendall(b"rm -rf\n" * 100)
        assert connection.recv(100) == b""
    server.kill()
    (data / ".kafkapy_snapshot-left").mkdir()
    server.start()
    deadline = time.monotonic() + SECONDS
    while (data / ".kafkapy_snapshot-left").exists():
        assert time.monotonic() < deadline, "what the killed broker left stays"
        time.sleep(0.01)
    assert server.stop() == 0
    assert not (data / ".kafkapy_control").exists()


def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    with KafkapyProcess(folder) as server:
        wait_for(server.data / ".kafkapy_control")
        done("backup", "--data", server.data, tmp_path / "store")


def test_a_moment_between_two_backups_has_the_records_up_to_it(tmp_path: Path) -> None:
    """What came later is not there, nor the end of a transaction, nor a commit."""
    data, store = tmp_path / "data", tmp_path / "store"
    with kafkapy.Broker(data_dir=data) as broker:
        broker.create_topics({"orders": 3})
        broker.produce("orders", value="in the first", partition=0)
        _commit(broker, 1)
    done("backup", "--data", data, store)
    with kafkapy.Broker(data_dir=data) as broker:
        broker.produce("orders", value="before", partition=0)
        _move(broker, "moved before")
        _commit(broker, 2)
        _tick()
        moment_ms = time.time_ns() // 1_000_000
        _tick()
        _commit(broker, 3)
        _move(broker, "moved after")
        broker.produce("orders", value="after", partition=0)
        broker.create_topics({"bills": 1})
    done("backup", "--data", data, store)

    said = done("restore", "--at", moment(moment_ms), store, tmp_path / "new")
    assert f"is as of {moment(moment_ms)}" in said
    assert "nothing is wrong" in done("check", "--deep", tmp_path / "new")
    assert not (tmp_path / "new.later").exists()
    with kafkapy.Broker(snapshot=tmp_path / "new") as broker:
        found = {record.value for record in broker.records("orders")}
        assert found == {b"in the first", b"before", b"moved before"}
        assert broker.group("readers").committed("orders", 0, 2) == 2
        assert "bills" not in broker.core.metadata.image.topics
        _move(broker, "moved again")
        assert b"moved again" in {record.value for record in broker.records("orders")}


def _tick() -> None:
    """Wait for a later millisecond."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= now + 1:
        time.sleep(0.001)


def _commit(broker: kafkapy.Broker, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def _move(broker: kafkapy.Broker, value: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "mover"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("orders", value=value, partition=1)
    producer.commit_transaction(SECONDS)


def test_a_restore_leaves_what_is_beside_it_alone(tmp_path: Path) -> None:
    data, store = tmp_path / "data", tmp_path / "store"
    for value in ("one", "two"):
        with kafkapy.Broker(data_dir=data) as broker:
            broker.produce("orders", value=value)
        done("backup", "--data", data, store)
    (tmp_path / "new.later").mkdir()
    (tmp_path / "new.later" / "mine").touch()
    first = min((store / "backups").iterdir()).stem
    at = first.replace("Z", "+00:00")
    done("restore", "--at", at, store, tmp_path / "other")
    done("restore", store, tmp_path / "new")
    assert (tmp_path / "new.later" / "mine").exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "new", "new.later", "other", "store"]


@pytest.mark.parametrize("command", ["restore", "snapshot"])
def test_what_was_killed_half_way_has_no_name(tmp_path: Path, command: str) -> None:
    """Else a broker would start on a part of the data, and say nothing."""
    data, store, new = tmp_path / "data", tmp_path / "store", tmp_path / "new"
    with kafkapy.Broker(data_dir=data) as broker:
        broker.create_topics({"orders": 3})
        broker.produce("orders", value="one")
    done("backup", "--data", data, store)
    killed_at_a_sync = (
        "import os; from kafkapy.storage.disk.files import FileSystem;"
        "FileSystem.sync_all = lambda *_: os._exit(9); from kafkapy.cli import main; main()"
    )
    arguments = [command, str(store if command == "restore" else data), str(new)]
    killed = subprocess.run([sys.executable, "-c", killed_at_a_sync, *arguments], check=False)
    assert killed.returncode == 9
    assert not new.exists()
    done(*arguments)
    assert values(new) == [b"one"]


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[KafkapyProcess]:
    """A broker with two log directories."""
    directories = Path(f"{tmp_path}/one,{tmp_path}/extra")
    with KafkapyProcess(tmp_path / "server", data=directories) as started:
        wait_for(tmp_path / "one" / ".kafkapy_control")
        yield started


def test_all_log_directories_are_in_a_backup(two_disks: KafkapyProcess, tmp_path: Path) -> None:
    """Each shares its files with its own part of the snapshot: no disk has to hold others."""
    servers = {"bootstrap.servers": two_disks.bootstrap_servers}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("orders", num_partitions=4)])["orders"].result(SECONDS)
    producer = Producer(servers)
    for number in range(4):
        for _ in range(3):
            producer.produce("orders", value="x" * 100_000, partition=number)
    assert producer.flush(SECONDS) == 0
    with taken_by_broker(tmp_path / "one") as taken:
        parts = taken.parts
        assert [each.parent for each in parts] == [tmp_path / "one", tmp_path / "extra"]
        for part in parts:
            logs = sorted(part.glob("orders-*/*.log"))
            assert [each.stat().st_nlink for each in logs] == [2, 1, 2, 1]
    done("backup", "--data", tmp_path / "one", tmp_path / "store")
    assert two_disks.stop() == 0
    assert not list(tmp_path.rglob(".kafkapy_snapshot-*"))
    done("restore", tmp_path / "store", tmp_path / "new")
    assert len(values(tmp_path / "new")) == 12
    for command in (
        ("backup", "--data", tmp_path / "one", tmp_path / "store"),
        ("snapshot", tmp_path / "one", tmp_path / "copy"),
    ):
        stderr = run(*command).stderr
        assert f"what is in {tmp_path / 'extra'} would be missing" in stderr
    with pytest.raises(kafkapy.SnapshotError, match="would be missing"):
        kafkapy.Broker(snapshot=tmp_path / "one").start()


def test_the_last_backup_is_the_newest_whatever_the_clock_says(tmp_path: Path) -> None:
    data, store = tmp_path / "data", tmp_path / "store"
    for value, hours in (("one", 0), ("two", -1)):
        with kafkapy.Broker(data_dir=data) as broker:
            broker.produce("orders", value=value)
        now = time.time_ns() // 1_000_000 + hours * 3_600_000
        save(open_store(str(store)), [data], now, lambda: None)
    done("restore", store, tmp_path / "new")
    assert values(tmp_path / "new") == [b"one", b"two"]


def test_a_place_has_backups_of_one_cluster(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with kafkapy.Broker(data_dir=tmp_path / name) as broker:
            broker.produce("orders", value=name)
    done("backup", "--data", tmp_path / "one", tmp_path / "store")
    assert "name another place" in run("backup", "--data", tmp_path / "two", tmp_path / "store").stderr
    done("restore", tmp_path / "store", tmp_path / "new")
    assert values(tmp_path / "new") == [b"one"]


def test_moments_between_two_histories_are_refused(tmp_path: Path) -> None:
    """A broker that was restored has other records at the same offsets."""
    data, store = tmp_path / "data", tmp_path / "store"
    for value in ("one", "two"):
        with kafkapy.Broker(data_dir=data) as broker:
            broker.produce("orders", value=value)
        done("backup", "--data", data, store)
    first = min((store / "backups").iterdir()).name.removesuffix(".json")
    done("restore", "--at", first, store, tmp_path / "again")
    _tick()
    between = moment(time.time_ns() // 1_000_000)
    with kafkapy.Broker(data_dir=tmp_path / "again") as broker:
        for value in ("other", "another"):
            broker.produce("orders", value=value)
    done("backup", "--data", tmp_path / "again", store)
    assert "do not follow each other: " in run("restore", "--at", between, store, tmp_path / "new").stderr
    assert not (tmp_path / "new").exists()
    done("restore", store, tmp_path / "new")
    assert values(tmp_path / "new") == [b"one", b"other", b"another"]


@pytest.mark.parametrize("scheme", ["file://", "memory:/"])
def test_content_that_an_interrupted_backup_left_in_part_is_brought_again(
    tmp_path: Path, scheme: str
) -> None:
    place, data = f"{scheme}{tmp_path}/store", tmp_path / "data"
    with kafkapy.Broker(data_dir=data) as broker:
        broker.produce("orders", value="x" * 1000)
    log = (data / "orders-0" / f"{0:020d}.log").read_bytes()
    sha256 = hashlib.sha256(log).hexdigest()
    files, root = fsspec.core.url_to_fs(place)
    files.makedirs(f"{root}/files/{sha256[:2]}", exist_ok=True)
    files.pipe_file(f"{root}/files/{sha256[:2]}/{sha256}", log[:10])
    done("backup", "--data", data, place)
    done("restore", place, tmp_path / "new")
    assert values(tmp_path / "new") == [b"x" * 1000]


def test_a_backup_is_on_disk_before_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut a backup that is named has all its files."""
    data, backups = tmp_path / "data", tmp_path / "store" / "backups"
    with kafkapy.Broker(data_dir=data) as broker:
        broker.produce("orders", value="one")
    synced: list[tuple[str, int]] = []

    def sync_all(_: FileSystem, path: str) -> None:
        synced.append((path, len(list(backups.glob("*.json")))))

    monkeypatch.setattr(FileSystem, "sync_all", sync_all)
    done("backup", "--data", data, tmp_path / "store")
    assert synced == [(str(tmp_path / "store"), 0), (str(tmp_path / "store"), 1)]


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, store, new = tmp_path / "data", tmp_path / "store", tmp_path / "new"
    with kafkapy.Broker(data_dir=data) as broker:
        broker.produce("orders", value="one")
    done("backup", "--data", data, store)

    def sync_all(_: FileSystem, path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FileSystem, "sync_all", sync_all)
    full = "[Errno 28] No space left on device\n"
    assert run("restore", store, new).stderr == f"kafkapy: {store} cannot be restored to {new}: {full}"
    assert run("snapshot", data, new).stderr == f"kafkapy: {data} cannot be copied to {new}: {full}"
    assert (
        run("backup", "--data", data, store).stderr
        == f"kafkapy: {data} cannot be backed up to {store}: {full}"
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "store"]
    assert len(list((store / "backups").iterdir())) == 1


def test_a_broker_that_stops_meanwhile_leaves_no_backup_of_the_rest(
    server: KafkapyProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes its snapshot: what is not listed yet is not left out of a backup."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic("orders", num_partitions=1)])["orders"].result(SECONDS)
    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    producer.produce("orders", value="one")
    assert producer.flush(SECONDS) == 0

    def stopped_after_the_logs(files: FileSystem, directory: str) -> Iterator[Part]:
        logs = sum("/" in each.name or each.is_directory for each in parts_of(files, directory))
        for number, part in enumerate(parts_of(files, directory), 1):
            yield part
            if number == logs:
                assert server.stop() == 0

    monkeypatch.setattr("kafkapy.tools.backup.saving.parts_of", stopped_after_the_logs)
    assert "the broker has ended meanwhile" in run("backup", "--data", server.data, tmp_path / "store").stderr
    monkeypatch.undo()
    assert "has no backups" in run("restore", tmp_path / "store", tmp_path / "new").stderr
    done("backup", "--data", server.data, tmp_path / "store")
    done("restore", tmp_path / "store", tmp_path / "new")
    assert values(tmp_path / "new") == [b"one"]


def test_a_crowd_at_the_socket_is_refused_and_the_broker_serves_others(server: KafkapyProcess) -> None:
    held = [connected(server.data) for _ in range(8)]
    try:
        with (
            pytest.raises(SnapshotError, match="other commands are at work with this broker"),
            taken_by_broker(server.data),
        ):
            pass
    finally:
        for each in held:
            each.close()
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with taken_by_broker(server.data) as taken:
                assert taken.parts
            return
        except SnapshotError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_store_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The libraries of stores raise errors of their own."""

    def refuse(request: str, path: str) -> None:
        if request == "ls":
            raise LookupError("Unable to\nlocate credentials")

    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        broker.produce("orders", value="two apples")
    store = f"odd:/{tmp_path}/store"
    done("backup", "--data", tmp_path / "data", store)
    for command in (
        ("backup", "--data", tmp_path / "data", store),
        ("prune", store, "--keep", 1),
        ("restore", store, tmp_path / "again"),
    ):
        with before_requests(refuse):
            refused = run(*command)
        assert refused.stderr == f"kafkapy: {store} cannot be used: Unable to locate credentials\n"
        assert refused.exit_code == 1


def test_a_place_within_a_data_directory_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with kafkapy.Broker(data_dir=data) as broker:
        broker.create_topics({"orders": 1})
    for place in (data, data / "backups", f"file://{data}/backups"):
        assert f"is in the data directory {data}" in run("backup", "--data", data, place).stderr
    done("backup", "--data", data, tmp_path / "backups")
    assert f"is in the data directory {data}" in run("restore", tmp_path / "backups", data / "new").stderr
    assert sorted(path.name for path in data.iterdir() if path.is_dir()) == ["orders-0"]


def test_an_empty_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As from a variable that a script has not set: the backup would be in the current directory.
    monkeypatch.chdir(tmp_path)
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topics({"orders": 1})
    for arguments in (["backup", "--data", "data", ""], ["restore", "", "new"], ["prune", "", "--keep", "1"]):
        result = run(*arguments)
        assert (result.exit_code, result.stderr[:46]) == (1, "kafkapy: the place of the backups is empty: na")
    assert os.listdir(tmp_path) == ["data"]
