"""Throttled replicas keep to their quota: its windows, its lists, and who is held back."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Mapping

import pytest

from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.replication_quota import (
    MAX_LIST_BYTES,
    UNLIMITED,
    QuotaParts,
    ReplicationQuota,
    ReplicationQuotas,
    WindowedRate,
)

RATE, REPLICAS = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"


class World:
    """The settings and the clock of broker 2."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rate = 1000
        self.configs: Mapping[str, str] = {REPLICAS: "*"}
        self.quota = ReplicationQuota(
            RATE,
            REPLICAS,
            WindowedRate(11, 1.0),
            QuotaParts(lambda _: self.rate, lambda _: self.configs, lambda: self.now, 2),
        )

    def throttled(self) -> list[int]:
        return [index for index in range(4) if self.quota.throttles(TopicPartition("t", index))]


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("*", [0, 1, 2, 3]),
        ("0:2,1:1,3:2", [0, 3]),
        (" 1:2 , 2:2", [1, 2]),
        ("0:1", []),
        ("", []),
        ("nonsense,1:x,2:2", [2]),
    ],
)
def test_a_list_names_the_throttled_replicas_of_each_broker(
    world: World, text: str, partitions: list[int]
) -> None:
    world.configs = {REPLICAS: text}
    assert world.throttled() == partitions


def test_lists_that_were_read_take_so_many_bytes_at_most(world: World) -> None:
    tracemalloc.start()
    at_most = 0
    for number in range(12):
        names = ",".join(f"{index}:2" for index in range(100_000 * number, 100_000 * number + 20_000))
        world.configs = {REPLICAS: names}
        assert world.quota.throttles(TopicPartition("t", 100_000 * number))
        at_most = max(at_most, tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert MAX_LIST_BYTES / 2 < at_most < MAX_LIST_BYTES * 1.1


def test_a_topic_without_a_list_is_not_throttled(world: World) -> None:
    world.configs = {"retention.ms": "1"}
    assert world.throttled() == []


def test_the_first_window_counts_as_a_whole_one(world: World) -> None:
    world.quota.record(1000)
    assert not world.quota.is_exceeded
    world.quota.record(1)
    assert world.quota.is_exceeded


def test_what_was_too_much_is_paid_off_by_time(world: World) -> None:
    world.quota.record(5000)
    for seconds in (0, 1, 2, 3, 4):
        world.now = 100.0 + seconds
        assert world.quota.is_exceeded
    world.now = 105.0
    assert not world.quota.is_exceeded


def test_windows_older_than_all_of_them_are_forgotten(world: World) -> None:
    world.quota.record(1_000_000)
    world.now += 10.9
    assert world.quota.is_exceeded
    world.now += 0.1
    assert not world.quota.is_exceeded


def test_a_quota_may_change_at_any_time(world: World) -> None:
    world.quota.record(5000)
    world.rate = 5000
    assert not world.quota.is_exceeded
    world.rate = 0
    assert world.quota.is_exceeded
    world.rate = UNLIMITED
    assert not world.quota.is_limited
    assert not world.quota.is_exceeded


def test_a_quota_of_nothing_is_not_exceeded_by_nothing(world: World) -> None:
    world.rate = 0
    assert not world.quota.is_exceeded


def test_a_rate_is_what_a_list_of_all_records_says() -> None:
    chance = random.Random(7)
    rate, now = WindowedRate(5, 2.0), 0.0
    windows: list[tuple[float, float]] = []
    for _ in range(2000):
        now += chance.choice((0.0, 0.1, 0.7, 3.0, 12.0))
        windows = [(start, amount) for start, amount in windows if now - start < 10.0]
        if chance.random() < 0.7:
            nbytes = chance.randrange(1000)
            rate.record(nbytes, now)
            if not windows or now - windows[-1][0] >= 2.0:
                windows.append((now, 0.0))
            windows[-1] = windows[-1][0], windows[-1][1] + nbytes
        expected = sum(amount for _, amount in windows) / max(now - windows[0][0], 2.0) if windows else 0.0
        assert rate.per_second(now) == pytest.approx(expected)


def test_a_broker_without_quotas_holds_nothing_back() -> None:
    quotas = ReplicationQuotas.unlimited()
    for quota in (quotas.leader, quotas.follower):
        quota.record(10**12)
        assert not quota.is_limited
        assert not quota.is_exceeded
        assert not quota.throttles(TopicPartition("t", 0))
