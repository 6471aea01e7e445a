"""franz-go's members of a share group settle each record once.

One of them is killed meanwhile.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from interop.conftest import MakeTopic
from interop.franz_go.program import Client, built_client
from interop.franz_go.test_clients import started
from interop.support.waiting import wait_until


@pytest.mark.slow
@pytest.mark.capability("groups")
def test_members_of_a_share_group_settle_each_record_once_though_one_is_killed(
    bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path, name: str
) -> None:
    built_client()
    topic = make_topic()  # of one partition, which both have: a dead member keeps its partitions for 45 s
    flags = ["-servers", bootstrap_servers, "-group", name, "-from", topic]
    killed, other = (Client(tmp_path, "share", *flags) for _ in range(2))
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    numbers = itertools.count()

    def write(count: int) -> None:
        for number in itertools.islice(numbers, count):
            producer.produce(topic, str(number))
        assert producer.flush(60) == 0

    def both_are_at_work() -> bool:
        write(10)
        return bool(settled(killed) and settled(other))

    with started([killed, other]):
        wait_until(both_are_at_work, timeout=60, pause=0.2)
        before = len(settled(killed))
        write(1_000)
        wait_until(lambda: len(settled(killed)) >= before + 50, timeout=60)
        killed.kill()
        expected = set(range(next(numbers)))
        unsure = numbers_of(each for each in killed.told) - set(settled(killed))
        wait_until(lambda: unsure | {*settled(killed), *settled(other)} == expected, timeout=60)
        assert other.stop() == 0, other.output()
    counts = Counter([*settled(killed), *settled(other)])
    assert all(count == 1 for count in counts.values()), "what was stored is not delivered again"
    assert counts.keys() | unsure == expected
    told = [each for each in (*killed.told, *other.told) if each["stored"]]
    rejected = numbers_of(each for each in told if each["status"] == "reject")
    assert rejected == {number for number in counts if number % 11 == 0}
    released = Counter(each["number"] for each in told if each["status"] == "release")
    assert all(number % 7 == 0 and count == 1 for number, count in released.items())
    again = numbers_of(each for each in told if each["count"] > 1)
    assert again >= released.keys() - unsure, "what was released is delivered again"


def settled(member: Client) -> list[int]:
    """The records that it accepted or rejected, and of which it knows that this is stored."""
    return [each["number"] for each in member.told if each["stored"] and each["status"] != "release"]


def numbers_of(told: Iterable[dict[str, Any]]) -> set[int]:
    return {each["number"] for each in told}
