"""franz-go copies records in transactions, and consumes in groups of both protocols."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from interop.conftest import MakeTopic, ServerFactory
from interop.franz_go.program import Client, built_client
from interop.support.committed_records import committed_values
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until

PARTITIONS: Final = 6
RECORDS: Final = 3_000
PROTOCOLS: Final = ("classic", "consumer")


def write(servers: str, topic: str, numbers: Sequence[int]) -> None:
    """Write numbered records, spread over the partitions."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    for number in numbers:
        producer.produce(topic, f"record {number:06}", partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def expected(numbers: Sequence[int]) -> dict[int, list[str]]:
    """The values of each partition, in order."""
    return {
        partition: [f"record {number:06}" for number in numbers if number % PARTITIONS == partition]
        for partition in range(PARTITIONS)
    }


@contextmanager
def started(clients: Sequence[Client]) -> Iterator[None]:
    try:
        for client in clients:
            client.start()
        yield
    finally:
        for client in clients:
            client.kill()


@pytest.mark.slow
@pytest.mark.capability("transactions")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_records_are_copied_once_and_in_order_though_a_copier_and_the_broker_are_killed(
    new_server: ServerFactory, tmp_path: Path, protocol: str
) -> None:
    built_client()
    with skipped_without_jars():
        server = new_server(tmp_path / "server")
    with server:
        servers = server.bootstrap_servers
        create_topics(servers, ("originals", "copies"), PARTITIONS)
        write(servers, "originals", range(RECORDS // 2))
        flags = ["-servers", servers, "-group", "copiers", "-protocol", protocol]
        flags += ["-from", "originals", "-to", "copies"]
        copiers = [Client(tmp_path, "copy", *flags, "-transactional-id", f"copier {name}") for name in "ab"]

        done = [TopicPartition("originals", index) for index in range(PARTITIONS)]
        ends = [RECORDS // PARTITIONS] * PARTITIONS

        def committed() -> int:
            for copier in copiers:
                if not copier.running:
                    copier.start()
            return sum(told["records"] for copier in copiers for told in copier.told if told["committed"])

        def all_committed() -> bool:
            return committed() > 0 and committed_offsets(servers, "copiers", done) == ends

        with started(copiers):
            wait_until(lambda: committed() >= RECORDS // 6, timeout=60)
            copiers[0].kill()
            copiers[0].start()
            wait_until(lambda: committed() >= RECORDS // 3, timeout=60)
            server.kill()
            server.start()
            write(servers, "originals", range(RECORDS // 2, RECORDS))
            wait_until(all_committed, timeout=90, pause=0.5)
            assert [copier.stop() for copier in copiers] == [0, 0], copiers[0].output()
        assert committed_values(servers, "copies", PARTITIONS) == expected(range(RECORDS))
        server.stop()


@pytest.mark.slow
@pytest.mark.capability("groups")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_the_partitions_and_take_over_from_one_that_leaves(
    bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, name: str, protocol: str
) -> None:
    built_client()
    topic = make_topic(PARTITIONS)
    flags = ["-servers", bootstrap_servers, "-group", name, "-protocol", protocol, "-from", topic]
    members = [Client(tmp_path, "consume", *flags) for _ in range(2)]

    def values(*which: Client) -> list[str]:
        return sorted(told["value"] for member in which for told in member.told if "value" in told)

    with started(members):
        group = wait_until(lambda: described(bootstrap_servers, name, members=2, partitions=PARTITIONS))
        assert group is not None
        assert (group.type.name.lower(), group.state.name) == (protocol, "STABLE")
        assert sorted(len(member.assignment.topic_partitions) for member in group.members) == [3, 3]
        write(bootstrap_servers, topic, range(600))
        first = sorted(value for found in expected(range(600)).values() for value in found)
        wait_until(lambda: len(values(*members)) >= len(first))
        assert values(*members) == first
        assert all(values(member) for member in members)

        assert members[0].stop() == 0, members[0].output()
        wait_until(lambda: described(bootstrap_servers, name, members=1, partitions=PARTITIONS))
        before = len(values(members[1]))
        write(bootstrap_servers, topic, range(600, 1_200))
        wait_until(lambda: len(values(members[1])) >= before + 600)
        assert len(values(members[1])) == before + 600
        assert members[1].stop() == 0, members[1].output()
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    assert committed_offsets(bootstrap_servers, name, partitions) == [200] * PARTITIONS


def described(servers: str, group: str, *, members: int, partitions: int) -> ConsumerGroupDescription | None:
    """The group, if it is stable and has so many members with so many partitions."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    found = admin.describe_consumer_groups([group])[group].result(30)
    assigned = sum(len(member.assignment.topic_partitions) for member in found.members)
    is_so = found.state.name == "STABLE" and (len(found.members), assigned) == (members, partitions)
    return found if is_so else None


def committed_offsets(servers: str, group: str, partitions: list[TopicPartition]) -> list[int]:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    asked = ConsumerGroupTopicPartitions(group, partitions)
    found = admin.list_consumer_group_offsets([asked], require_stable=False)[group].result(30)
    offsets = {each.partition: each.offset for each in found.topic_partitions or []}
    return [offsets[each.partition] for each in partitions]
