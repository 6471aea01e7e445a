"""kafka-python: consumer groups."""

from __future__ import annotations

import threading

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from interop.conftest import MakeTopic
from interop.kafka_python.client import as_received, poll, produce
from interop.support.records import Received, check_partitions, text_records
from interop.support.waiting import wait_until


class Member:
    """A group's consumer that polls in a thread, and remembers what it got.

    It polls for longer than a join takes: one that outlasts the poll may be forgotten (FINDINGS, 5).
    """

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **config: object) -> None:
        settings = {
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 10_000,
        }
        self.consumer = KafkaConsumer(
            topic, bootstrap_servers=bootstrap_servers, group_id=group, **{**settings, **config}
        )
        self.received: list[Received] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, name=f"member of {group}", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            for records in self.consumer.poll(timeout_ms=1_000).values():
                self.received += map(as_received, records)

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def close(self, **how: object) -> None:
        """End the thread, then close the consumer."""
        self._stopping.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        self.consumer.close(**how)


@pytest.mark.capability("groups")
def test_members_share_the_partitions_and_hand_them_over(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(4), text_records(600)
    produce(bootstrap_servers, topic, sent[:200])
    first = Member(bootstrap_servers, topic, name)
    wait_until(lambda: len(first.received) == 200)
    assert first.partitions == {0, 1, 2, 3}

    second = Member(bootstrap_servers, topic, name)
    wait_until(lambda: len(first.partitions) == len(second.partitions) == 2)
    assert first.partitions | second.partitions == {0, 1, 2, 3}
    produce(bootstrap_servers, topic, sent[200:400])
    wait_until(lambda: len(first.received) + len(second.received) == 400)
    assert second.received

    first.close()
    wait_until(lambda: second.partitions == {0, 1, 2, 3})
    produce(bootstrap_servers, topic, sent[400:])
    wait_until(lambda: len(first.received) + len(second.received) == 600)
    second.close()
    check_partitions(sent, first.received + second.received)


@pytest.mark.capability("groups")
def test_a_group_goes_on_where_it_committed(bootstrap_servers: str, make_topic: MakeTopic, name: str) -> None:
    topic, sent = make_topic(), text_records(100)
    produce(bootstrap_servers, topic, sent)
    partition = TopicPartition(topic, 0)
    config = {"bootstrap_servers": bootstrap_servers, "group_id": name, "auto_offset_reset": "earliest"}
    first = KafkaConsumer(topic, enable_auto_commit=False, **config)
    assert first.committed(partition) is None
    assert len(poll(first, 100)) == 100
    first.commit({partition: OffsetAndMetadata(37, "half-way", -1)})
    first.close()
    second = KafkaConsumer(topic, **config)
    received = poll(second, 63)
    assert [each.offset for each in received] == list(range(37, 100))
    assert [each.record for each in received] == sent[37:]
    committed = second.committed(partition, metadata=True)
    assert (committed.offset, committed.metadata) == (37, "half-way")
    second.close()


@pytest.mark.capability("groups")
def test_a_static_member_that_returns_keeps_its_partitions(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(4)
    first = Member(bootstrap_servers, topic, name, group_instance_id="one")
    wait_until(lambda: len(first.partitions) == 4)
    second = Member(bootstrap_servers, topic, name, group_instance_id="two")
    wait_until(lambda: len(first.partitions) == len(second.partitions) == 2)
    before = second.partitions
    generation = second.consumer.group_metadata().generation_id
    second.close(autocommit=False)
    again = Member(bootstrap_servers, topic, name, group_instance_id="two")
    wait_until(lambda: len(again.partitions) == 2)
    assert again.partitions == before
    assert again.consumer.group_metadata().generation_id == generation
    first.close()
    again.close()


@pytest.mark.capability("groups")
def test_a_pattern_subscription_finds_a_topic_created_later(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    config = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 500, "group_id": name}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, **config)
    consumer.subscribe(pattern=f"^{name}-.*")
    consumer.poll(timeout_ms=1_000)
    topic, sent = make_topic(), text_records(20)
    produce(bootstrap_servers, topic, sent)
    check_partitions(sent, poll(consumer, 20))
    consumer.close()
