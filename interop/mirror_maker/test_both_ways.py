"""Each side is mirrored to the other.

Topics are mirrored, with their records and settings, and the offsets of groups.

Records are exactly once: MirrorMaker 2 writes them in transactions together with its own offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from interop.conftest import ServerFactory
from interop.mirror_maker.mirror_maker import MirrorMaker
from interop.support.committed_records import committed_messages
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import connect_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.known_topics import create_topics, wait_until_known
from interop.support.waiting import wait_until
from tests.servers.server_process import ServerProcess

PARTITIONS = 2
DIRECTIONS = [("a", "b"), ("b", "a")]
NOT_YET = (KafkaException, AssertionError, KeyError)
"""A topic that is not there yet."""


class Sides(NamedTuple):
    """The server under test is `a`, Apache Kafka `b`."""

    a: ServerProcess
    b: ServerProcess
    mirror_maker: MirrorMaker

    def servers(self, side: str) -> str:
        return {"a": self.a, "b": self.b}[side].bootstrap_servers


@pytest.fixture(scope="module")
def sides(new_server: ServerFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder: Path = tmp_path_factory.mktemp("mirror_maker")
    with skipped_without_jars():
        connect_jars()
        a, b = new_server(folder / "a"), KafkaProcess(folder / "b", heap="512m")
        b.start()
    try:
        with a:
            clusters = {"a": a.bootstrap_servers, "b": b.bootstrap_servers}
            with MirrorMaker(folder, clusters) as mirror_maker:
                # It mirrors its own heartbeats as soon as it is at work.
                wait_until_known(b.bootstrap_servers, "a.heartbeats", timeout=180)
                wait_until_known(a.bootstrap_servers, "b.heartbeats", timeout=180)
                yield Sides(a, b, mirror_maker)
                assert a.running, f"the server ended:\n{a.output()}"
                assert mirror_maker.running, "\n".join(mirror_maker.printed()[-40:])
    finally:
        b.kill()


def write(servers: str, topic: str, numbers: Sequence[int]) -> None:
    """Write numbered records with keys, headers and timestamps, in turn to each partition."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    for number in numbers:
        producer.produce(
            topic,
            None if number % 7 == 3 else f"value {number}",
            f"key {number}",
            partition=number % PARTITIONS,
            timestamp=1_700_000_000_000 + number,
            headers=[("number", str(number).encode())],
        )
    assert producer.flush(60) == 0


def contents(servers: str, topic: str) -> dict[int, list[tuple[object, ...]]]:
    """Of each partition the records, in order."""
    found = committed_messages(servers, topic, PARTITIONS, timeout=5)
    return {partition: [_content(message) for message in found[partition]] for partition in range(PARTITIONS)}


def _content(message: Message) -> tuple[object, ...]:
    return message.key(), message.value(), message.timestamp(), message.headers()


def wait_until_mirrored(sides: Sides, source: str, target: str, topic: str) -> None:
    original = contents(sides.servers(source), topic)

    def is_mirrored() -> bool:
        copies = contents(sides.servers(target), f"{source}.{topic}")
        done = sum(map(len, copies.values())) >= sum(map(len, original.values()))
        assert not done or copies == original
        return done

    wait_until(is_mirrored, timeout=90, ignoring=NOT_YET, pause=0.5)
    assert contents(sides.servers(target), f"{source}.{topic}") == original


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("records")
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_records_are_mirrored_as_they_are(sides: Sides, name: str, source: str, target: str) -> None:
    topic = f"from-{source}-{name}"
    create_topics(sides.servers(source), (topic,), PARTITIONS, config={"retention.ms": "-1"})
    write(sides.servers(source), topic, range(500))
    wait_until_mirrored(sides, source, target, topic)


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("groups")
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_a_group_goes_on_at_the_other_side_where_it_was(
    sides: Sides, name: str, source: str, target: str
) -> None:
    topic, group = f"from-{source}-{name}", f"from-{source}-group-{name}"
    create_topics(sides.servers(source), (topic,), PARTITIONS, config={"retention.ms": "-1"})
    write(sides.servers(source), topic, range(300))
    assert len(consumed(sides.servers(source), group, topic, 300)) == 300
    wait_until_mirrored(sides, source, target, topic)

    mirrored = f"{source}.{topic}"
    wait_until(
        lambda: translated(sides.servers(target), group, mirrored) >= 300,
        timeout=60,
        ignoring=NOT_YET,
        pause=0.5,
    )
    write(sides.servers(source), topic, range(300, 400))
    keys = consumed(sides.servers(target), group, mirrored, 100)
    assert keys == {f"key {number}".encode() for number in range(300, 400)}


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("configs")
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_partitions_and_settings_follow_the_original(
    sides: Sides, name: str, source: str, target: str
) -> None:
    topic = f"from-{source}-{name}"
    mirrored = f"{source}.{topic}"
    create_topics(sides.servers(source), (topic,), PARTITIONS, config={"retention.ms": "-1"})
    write(sides.servers(source), topic, range(10))
    wait_until_mirrored(sides, source, target, topic)

    admin = AdminClient({"bootstrap.servers": sides.servers(source)})
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    changes = {"retention.ms": "86400000", "max.message.bytes": "2000000"}
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)

    other = AdminClient({"bootstrap.servers": sides.servers(target)})

    def follows() -> bool:
        partitions = other.list_topics(mirrored, timeout=10).topics[mirrored].partitions
        asked = ConfigResource(ResourceType.TOPIC, mirrored)
        configs = other.describe_configs([asked])[asked].result(30)
        return len(partitions) == 5 and {key: configs[key].value for key in changes} == changes

    wait_until(follows, timeout=60, pause=0.5)


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("cluster")
def test_mirror_maker_learns_that_no_authorizer_is_there(sides: Sides) -> None:
    told = "No ACL authorizer is configured on the source Kafka cluster"
    wait_until(lambda: sum(told in line for line in sides.mirror_maker.printed()) >= 2, timeout=60, pause=0.5)


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.capability("restart")
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_nothing_is_lost_or_doubled_when_mirror_maker_and_the_server_are_killed(
    sides: Sides, name: str, source: str, target: str
) -> None:
    topic = f"from-{source}-{name}"
    create_topics(sides.servers(source), (topic,), PARTITIONS, config={"retention.ms": "-1"})
    write(sides.servers(source), topic, range(2_000))
    mirrored = f"{source}.{topic}"
    wait_until(lambda: contents(sides.servers(target), mirrored)[0], timeout=60, ignoring=NOT_YET)
    write(sides.servers(source), topic, range(2_000, 4_000))
    sides.mirror_maker.kill()
    sides.mirror_maker.start()
    sides.a.kill()
    sides.a.start()
    write(sides.servers(source), topic, range(4_000, 5_000))
    wait_until_mirrored(sides, source, target, topic)


def consumed(servers: str, group: str, topic: str, count: int) -> set[bytes]:
    """The keys of the next records that the group is given, which it commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    keys: list[bytes] = []

    def has_all() -> bool:
        for message in consumer.consume(count, 0.2):
            assert message.error() is None, message.error()
            keys.append(message.key() or b"")
        return len(keys) >= count

    try:
        wait_until(has_all, timeout=60)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert len(keys) == len(set(keys))
    return set(keys)


def translated(servers: str, group: str, topic: str) -> int:
    """How many records the offsets of a group are past the start of a topic's partitions.

    Each partition of a mirror has markers too, of which an offset at the end may have some after it.
    """
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    try:
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        offsets = {each.partition: each.offset for each in consumer.committed(partitions, timeout=10)}
    finally:
        consumer.close()
    found = committed_messages(servers, topic, PARTITIONS, timeout=5)
    return sum((each.offset() or 0) < offsets[number] for number, part in found.items() for each in part)
