"""confluent-kafka: consumer groups, eager and cooperative."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from interop.confluent_kafka.client import as_received, poll, produce
from interop.conftest import MakeTopic
from interop.support.records import Received, check_partitions, text_records


class Member:
    """A group's consumer that remembers what it got and what it was given and lost."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **config: object) -> None:
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 10_000,
            "topic.metadata.refresh.interval.ms": 1_000,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        self.consumer = Consumer(settings)
        self.received: list[Received] = []
        self.lost: list[int] = []
        cooperative = settings.get("partition.assignment.strategy") == "cooperative-sticky"

        def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self.lost += [each.partition for each in partitions]
            if cooperative:
                consumer.incremental_unassign(partitions)
            else:
                consumer.unassign()

        self.consumer.subscribe([topic], on_revoke=revoked)

    def poll(self) -> None:
        self.received += map(as_received, self.consumer.consume(1_000, 0.05))

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}


def poll_until(members: list[Member], reached: Callable[[], bool], timeout: float = 40.0) -> None:
    deadline = time.monotonic() + timeout
    while not reached():
        assert time.monotonic() < deadline, [(len(member.received), member.partitions) for member in members]
        for member in members:
            member.poll()


@pytest.mark.capability("groups")
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_and_hand_them_over(
    bootstrap_servers: str, make_topic: MakeTopic, name: str, strategy: str
) -> None:
    topic, sent = make_topic(6), text_records(3_000)
    produce(bootstrap_servers, topic, sent[:1_000])
    config = {"partition_assignment_strategy": strategy}
    first = Member(bootstrap_servers, topic, name, **config)
    poll_until([first], lambda: len(first.received) == 1_000)
    assert first.partitions == set(range(6))

    second = Member(bootstrap_servers, topic, name, **config)
    poll_until([first, second], lambda: len(first.partitions) == len(second.partitions) == 3)
    assert first.partitions | second.partitions == set(range(6))
    if strategy == "cooperative-sticky":
        assert set(first.lost) == second.partitions
    produce(bootstrap_servers, topic, sent[1_000:2_000])
    poll_until([first, second], lambda: len(first.received) + len(second.received) == 2_000)
    assert second.received

    first.consumer.close()
    poll_until([second], lambda: second.partitions == set(range(6)))
    produce(bootstrap_servers, topic, sent[2_000:])
    poll_until([second], lambda: len(first.received) + len(second.received) == 3_000)
    second.consumer.close()
    check_partitions(sent, first.received + second.received)


@pytest.mark.capability("groups")
def test_a_group_goes_on_where_it_committed(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic, sent = make_topic(), text_records(100)
    produce(bootstrap_servers, topic, sent)
    config = {"bootstrap.servers": bootstrap_servers, "group.id": name, "auto.offset.reset": "earliest"}
    first = Consumer({**config, "enable.auto.commit": False})
    first.subscribe([topic])
    assert len(poll(first, 100)) == 100
    first.commit(offsets=[TopicPartition(topic, 0, 37, "half-way")], asynchronous=False)
    first.close()
    second = Consumer(config)
    second.subscribe([topic])
    received = poll(second, 63)
    assert [each.offset for each in received] == list(range(37, 100))
    assert [each.record for each in received] == sent[37:]
    (committed,) = second.committed([TopicPartition(topic, 0)], 10)
    assert (committed.offset, committed.metadata) == (37, "half-way")
    second.close()


@pytest.mark.capability("groups")
def test_a_static_member_that_returns_keeps_its_partitions(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(4)
    first = Member(bootstrap_servers, topic, name, group_instance_id="one")
    second = Member(bootstrap_servers, topic, name, group_instance_id="two")
    poll_until([first, second], lambda: len(first.partitions) == len(second.partitions) == 2)
    before, lost = second.partitions, list(first.lost)
    second.consumer.close()
    again = Member(bootstrap_servers, topic, name, group_instance_id="two")
    poll_until([first, again], lambda: len(again.partitions) == 2)
    assert again.partitions == before
    assert first.lost == lost, "the other member was disturbed"
    first.consumer.close()
    again.consumer.close()


@pytest.mark.capability("groups")
def test_a_member_that_vanishes_is_replaced(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic, sent = make_topic(4), text_records(400)
    produce(bootstrap_servers, topic, sent)
    config = {"session_timeout_ms": 6_000, "max_poll_interval_ms": 6_000}
    first = Member(bootstrap_servers, topic, name, **config)
    second = Member(bootstrap_servers, topic, name, **config)
    poll_until([first, second], lambda: len(first.partitions) == len(second.partitions) == 2)
    poll_until([second], lambda: second.partitions == {0, 1, 2, 3})  # the first is no longer polled
    second.consumer.close()
    first.consumer.close()


@pytest.mark.capability("groups")
def test_a_pattern_subscription_finds_a_topic_created_later(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    first, sent = make_topic(), text_records(40)
    produce(bootstrap_servers, first, sent[:20])
    member = Member(bootstrap_servers, f"^{name}-.*", name)
    poll_until([member], lambda: len(member.received) == 20)
    second = make_topic()
    produce(bootstrap_servers, second, sent[20:])
    poll_until([member], lambda: len(member.received) == 40)
    check_partitions(sent[:20], member.received[:20])
    check_partitions(sent[20:], member.received[20:])
    member.consumer.close()
