"""Share consumers of Java and librdkafka, and kafka-share-groups looking at their groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from interop.conftest import MakeTopic
from interop.java_tools.test_administration import table
from interop.java_tools.tools import ToolError, tool
from interop.share_groups.conftest import MakeGroup
from interop.share_groups.workers import Said, Worker
from interop.support.waiting import wait_until

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RECORDS = 600


def produce(bootstrap_servers: str, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in numbers:
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0


def settled(said: Sequence[Said]) -> list[int]:
    """The records that were accepted or rejected."""
    return sorted(each.number for each in said if each.what != "RELEASE")


def test_java_workers_share_the_records(
    bootstrap_servers: str, make_topic: MakeTopic, make_group: MakeGroup
) -> None:
    topic, group = make_topic(partitions=2), make_group()
    numbers = list(range(RECORDS))
    with Worker(bootstrap_servers, group, topic) as one, Worker(bootstrap_servers, group, topic) as two:
        wait_until(
            lambda: "Stable" in tool("share-groups", bootstrap_servers, "--list", "--state"), timeout=60
        )
        produce(bootstrap_servers, topic, numbers)
        wait_until(lambda: len(settled([*one.said, *two.said])) >= RECORDS, timeout=60)
    said = [*one.said, *two.said]
    assert settled(said) == numbers, "each record is settled once"
    released = sorted(each.number for each in said if each.what == "RELEASE")
    assert released == [number for number in numbers if number % 7 == 0]
    again = {each.number for each in said if each.delivery_count > 1}
    assert again >= set(released), "what was released is delivered again"
    assert all(each.what == "REJECT" for each in said if each.number % 11 == 0 and each.number % 7)


def test_a_worker_that_is_killed_loses_nothing(
    bootstrap_servers: str, make_topic: MakeTopic, make_group: MakeGroup
) -> None:
    topic, group = make_topic(), make_group()
    numbers = list(range(RECORDS))
    produce(bootstrap_servers, topic, numbers)
    killed = Worker(bootstrap_servers, group, topic)
    wait_until(lambda: len(killed.said) > 100, timeout=60)
    killed.kill()
    unsure = killed.tried - set(settled(killed.said))
    with Worker(bootstrap_servers, group, topic) as other:
        wait_until(lambda: unsure | set(settled([*killed.said, *other.said])) == set(numbers), timeout=60)
    counts = Counter(settled([*killed.said, *other.said]))
    assert all(count == 1 for count in counts.values()), "what was stored is not delivered again"


def test_the_share_consumer_of_librdkafka(
    bootstrap_servers: str, make_topic: MakeTopic, make_group: MakeGroup
) -> None:
    topic, group = make_topic(), make_group()
    produce(bootstrap_servers, topic, range(100))
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
    )
    accepted: list[int] = []
    released: set[int] = set()
    try:
        consumer.subscribe([topic])

        def take() -> bool:
            messages = list(consumer.poll(1.0))
            for message in messages:
                assert message.error() is None
                number = int(message.value() or b"")
                if number % 10 == 0 and number not in released:
                    released.add(number)
                    consumer.acknowledge(message, AcknowledgeType.RELEASE)
                else:
                    accepted.append(number)
                    consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            assert all(error is None for error in consumer.commit_sync(30).values())
            return len(accepted) >= 100

        wait_until(take, timeout=60)
    finally:
        consumer.close()
    assert sorted(accepted) == list(range(100))
    assert released == set(range(0, 100, 10))


def test_a_group_is_described_reset_and_deleted_by_the_tool(
    bootstrap_servers: str, make_topic: MakeTopic, make_group: MakeGroup
) -> None:
    topic, group = make_topic(), make_group()
    produce(bootstrap_servers, topic, range(1, 6))

    def groups(*arguments: str) -> str:
        return tool("share-groups", bootstrap_servers, *arguments)

    def offset() -> tuple[str, str]:
        (row,) = table(groups("--describe", "--group", group))
        return row["START-OFFSET"], row["LAG"]

    with Worker(bootstrap_servers, group, topic) as worker:
        wait_until(lambda: len(worker.said) == 5, timeout=60)
        assert group in groups("--list").split()
        (member,) = table(groups("--describe", "--group", group, "--members"))
        assert topic in " ".join(member.values())
        assert "Stable" in groups("--describe", "--group", group, "--state")
        with pytest.raises(ToolError):
            groups("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    wait_until(lambda: "Empty" in groups("--describe", "--group", group, "--state"), timeout=60)
    assert offset()[1] == "0", "nothing is left to be delivered"
    groups("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert offset() == ("0", "5")
    with Worker(bootstrap_servers, group, topic) as worker:
        wait_until(lambda: len(worker.said) == 5, timeout=60)
    wait_until(lambda: "Empty" in groups("--describe", "--group", group, "--state"), timeout=60)
    assert "Successful" in groups("--delete-offsets", "--group", group, "--topic", topic)
    assert "successful" in groups("--delete", "--group", group)
    assert group not in groups("--list").split()
