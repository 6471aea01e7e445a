"""A real disk is filled to the last byte and freed again.

Nothing is lost, and no restart is needed.

A broker that restarts before the disk is full, or while it is, serves what was there and heals as well.

Needs root and a kernel that mounts disk images; skipped with the reason elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from kafkapy.protocol.errors import NONE, ErrorCode
from tests.crash import tmpfs_disk
from tests.crash.load import RECONNECT, Committer, create_topic, read_pass
from tests.crash.loop_disk import LoopDisk, why_not
from tests.crash.power_scenes import broker_on
from tests.crash.results import note
from tests.handlers.group_client import commit
from tests.network.raw_client import RawClient, eventually
from tests.promises.checker import check
from tests.promises.history import Acked, History, Sent, checksum_of
from tests.servers.kafkapy_process import KafkapyProcess

RECORDS = int(os.environ.get("KAFKAPY_FULL_DISK_RECORDS", "12000"))
"""To be acknowledged in all."""
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
LOOPS = 3
MANY_COMMITS = 3000
"""With 4 kB of metadata each, more than is free on a small disk, with all that is reserved."""
MEGABYTES = 128
REFUSED_WITHIN = 1.0
WRITABLE_WITHIN = 5.0
DEADLINE = 60.0


class OneShotProducer:
    """Sends records without retries, and returns their results."""

    def __init__(self, servers: str, history: History) -> None:
        self._history = history
        self._number = 0
        self._chance = random.Random(SEED)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "message.send.max.retries": 0,
                "linger.ms": 0,
                "batch.num.messages": 200,
                **RECONNECT,
            }
        )
        self.refused: list[KafkaError] = []

    def send(self, count: int, *, size: int = 700) -> None:
        """Send `count` records and wait for their answers."""
        self.refused.clear()
        for _ in range(count):
            number, self._number = self._number, self._number + 1
            key, value = f"p:{number}".encode(), self._chance.randbytes(size)
            partition = ("topic", number % 2)
            self._history.append(Sent("p", number, partition, checksum_of(key, value), idempotent=False))

            def delivered(error: KafkaError | None, message: Message, number: int = number) -> None:
                offset = message.offset()
                if error is not None:
                    self.refused.append(error)
                elif offset is not None:
                    self._history.append(Acked("p", number, offset))

            self._producer.produce("topic", value, key, partition[1], on_delivery=delivered)
        assert self._producer.flush(DEADLINE) == 0


def fill_to_the_last_byte(path: Path) -> None:
    """Write a file until nothing more fits."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017


def acknowledged(history: History) -> int:
    return sum(isinstance(event, Acked) for event in history)


@pytest.mark.slow
@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_a_full_disk_refuses_records_loses_none_and_recovers_without_a_restart(
    tmp_path: Path, file_system: str
) -> None:
    reason = why_not(file_system)
    if reason:
        pytest.skip(reason)
    history: History = []
    slowest_refusal = slowest_return = 0.0
    with (
        LoopDisk(tmp_path, megabytes=max(MEGABYTES, 2 * RECORDS // 1000), file_system=file_system) as disk,
        broker_on(disk, tmp_path) as broker,
    ):
        servers = broker.bootstrap_servers
        create_topic(servers, "topic", 2, {})
        producer = OneShotProducer(servers, history)
        committer = Committer("group", servers, history)
        while acknowledged(history) < RECORDS // 2:
            producer.send(2000)
            assert not producer.refused, producer.refused[0]
        ballast = disk.path / "ballast"
        for loop in range(LOOPS):
            fill_to_the_last_byte(ballast)
            slowest_refusal = max(slowest_refusal, _refused_within(producer, REFUSED_WITHIN))
            _others_go_on(broker, committer, history, loop)
            ballast.unlink()
            slowest_return = max(slowest_return, _writable_within(producer, WRITABLE_WITHIN))
            for _ in range(max(1, RECORDS // 2 // LOOPS // 500)):
                producer.send(500)
                assert not producer.refused, producer.refused[0]
        assert broker.running
        committer.close()
        read_pass(servers, "before", {("topic", 0): 0, ("topic", 1): 0}, history)
        broker.kill()
        broker.start()
        read_pass(servers, "after", {("topic", 0): 0, ("topic", 1): 0}, history)
    findings = check(history)
    note(
        "R6",
        f"full disk, {file_system}",
        tried=LOOPS,
        acknowledged=acknowledged(history),
        lost=len(findings),
        slowest_refusal_s=round(slowest_refusal, 3),
        slowest_return_s=round(slowest_return, 3),
    )
    assert not findings, "\n".join(map(str, findings[:10]))


def _refused_within(producer: OneShotProducer, seconds: float) -> float:
    """The seconds until an answer refuses.

    The first sends may still fit into what was preallocated.
    """
    deadline = time.monotonic() + DEADLINE
    while True:
        started = time.monotonic()
        producer.send(1, size=60_000)
        took = time.monotonic() - started
        if producer.refused:
            assert producer.refused[0].code() == KafkaError.KAFKA_STORAGE_ERROR, producer.refused[0]
            assert took <= seconds, f"the refusal took {took:.2f} s"
            return took
        assert time.monotonic() < deadline, "a full disk takes records"


def _others_go_on(broker: KafkapyProcess, committer: Committer, history: History, loop: int) -> None:
    """Fetches and offset commits are answered on a full disk; the broker lives."""
    ends = read_pass(broker.bootstrap_servers, f"full-{loop}", {("topic", 0): 0, ("topic", 1): 0}, history)
    before = len(history)
    for partition, end in ends.items():
        committer.commit(partition, end - loop)
        committer.fetch(partition)
    assert len(history) == before + 3 * len(ends), "an offset commit was refused on a full disk"
    assert broker.running


def _writable_within(producer: OneShotProducer, seconds: float) -> float:
    started = time.monotonic()
    while True:
        producer.send(1)
        took = time.monotonic() - started
        if not producer.refused:
            return took
        assert took <= seconds, f"{took:.1f} s after space returned: {producer.refused[0]}"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("file_system", ["ext4", "tmpfs", "xfs"])
def test_a_broker_that_restarts_before_and_on_a_full_disk_loses_nothing_and_recovers(
    tmp_path: Path, file_system: str, end: str
) -> None:
    history: History = []
    partitions = {("topic", 0): 0, ("topic", 1): 0}
    with small_disk(tmp_path, file_system) as disk:
        settings = {"log.segment.delete.delay.ms": "0", "offsets.topic.num.partitions": "2"}
        with KafkapyProcess(tmp_path, properties=settings, data=disk.path / "data") as broker:
            servers = broker.bootstrap_servers
            for topic in ("topic", "other"):
                create_topic(servers, topic, 2, {})
            producer = OneShotProducer(servers, history)
            producer.send(2000)
            assert not producer.refused, producer.refused[0]
            committer = Committer("group", servers, history)
            for place in partitions:
                committer.commit(place, 1)
            for restart in range(LOOPS):
                # Nothing is written between the restart and the last byte: no file of the logs is open, and
                # the next batch is the first of its leader epoch.
                restart_by(end, broker)
                ballast = disk.path / f"ballast-{restart}"
                fill_to_the_last_byte(ballast)
                _others_go_on(broker, committer, history, restart)
                _refused_within(producer, DEADLINE)
                restart_by(end, broker)
                _others_go_on(broker, committer, history, restart + LOOPS)
                _refused_within(producer, DEADLINE)
                fill_to_the_last_byte(disk.path / "more")
                read_pass(servers, f"fuller-{restart}", partitions, history)
                assert broker.running
                (disk.path / "more").unlink()
                ballast.unlink()
                _writable_within(producer, WRITABLE_WITHIN)
                producer.send(500)
                assert not producer.refused, producer.refused[0]
            fill_to_the_last_byte(disk.path / "ballast")
            delete_topic(servers, "other")
            restart_by(end, broker)
            assert set(topics_of(servers)) == {"__consumer_offsets", "topic"}
            assert not list(broker.data.glob("other-[01]"))
            (disk.path / "ballast").unlink()
            _writable_within(producer, WRITABLE_WITHIN)
            committer.close()
            restart_by(end, broker)
            read_pass(servers, "after", partitions, history)
    findings = check(history)
    note(
        "R6",
        f"full disk and restarts by {end}, {file_system}",
        tried=LOOPS,
        acknowledged=acknowledged(history),
        lost=len(findings),
    )
    assert not findings, "\n".join(map(str, findings[:10]))


@pytest.mark.slow
@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("file_system", ["ext4", "tmpfs", "xfs"])
def test_commits_do_not_use_up_what_the_remedies_for_a_full_disk_need(
    tmp_path: Path, file_system: str, end: str
) -> None:
    with small_disk(tmp_path, file_system) as disk:
        settings = {"log.segment.delete.delay.ms": "0", "offsets.topic.num.partitions": "2"}
        with KafkapyProcess(tmp_path, properties=settings, data=disk.path / "data") as broker:
            servers = broker.bootstrap_servers
            for topic in ("topic", "other"):
                create_topic(servers, topic, 1, {})
            OneShotProducer(servers, []).send(1)
            committer = Committer("group", servers, [])
            committer.commit(("topic", 0), 0)
            committer.close()
            with RawClient(servers) as client:
                eventually(lambda: _commits(client, 1) == NONE, "offsets are committed")
                fill_to_the_last_byte(disk.path / "ballast")
                assert _commits(client, MANY_COMMITS) is ErrorCode.COORDINATOR_NOT_AVAILABLE
                delete_topic(servers, "other")
                create_topic(servers, "new", 1, {})
                assert _commits(client, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            restart_by(end, broker)
            assert set(topics_of(servers)) >= {"new", "topic"}
            delete_topic(servers, "topic")
            (disk.path / "ballast").unlink()
            with RawClient(servers) as client:
                eventually(lambda: _commits(client, 1, "new") == NONE, "offsets are committed again")
        assert (
            broker.log_path.read_text().count("offset commits, new members and transactions are refused") <= 2
        )


def _commits(client: RawClient, count: int, topic: str = "topic") -> ErrorCode:
    """Commit an offset with much metadata several times; return the first error."""
    for offset in range(count):
        answer = commit(client, "group", {(topic, 0): offset}, version=8, metadata="m" * 4000)
        if error := answer[topic, 0]:
            return error
    return NONE


def small_disk(folder: Path, file_system: str) -> LoopDisk | tmpfs_disk.TmpfsDisk:
    """A disk of a few megabytes; the test is skipped where there can be none."""
    reason = tmpfs_disk.why_not() if file_system == "tmpfs" else why_not(file_system)
    if reason:
        pytest.skip(reason)
    if file_system == "tmpfs":
        return tmpfs_disk.TmpfsDisk(folder, megabytes=MEGABYTES)
    return LoopDisk(folder, megabytes=MEGABYTES, file_system=file_system)


def restart_by(end: str, broker: KafkapyProcess) -> None:
    """End the broker, whatever its exit code, and start it again."""
    if end == "SIGKILL":
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()


def delete_topic(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(DEADLINE)


def topics_of(servers: str) -> list[str]:
    return list(AdminClient({"bootstrap.servers": servers}).list_topics(timeout=DEADLINE).topics)
