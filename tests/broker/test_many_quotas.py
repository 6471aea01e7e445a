"""Thousands of quotas that change at once are taken in turns."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator

import pytest

from kafkapy.broker.quotas import BrokerQuotas
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.quotas import ClientQuotas, quota_entity
from kafkapy.network.server import Server
from tests.network.harness import Harness, serving
from tests.network.loop_watch import is_long

MANY = 10_000


@pytest.fixture
def harness() -> Iterator[Harness]:
    gc.collect()
    gc.disable()
    try:
        with serving() as harness:
            yield harness
    finally:
        gc.enable()


def image(rate: int, clients: int = MANY) -> MetadataImage:
    """Metadata with a quota for each of so many client ids."""
    configs = {
        quota_entity({"client-id": f"c{number}"}): {"producer_byte_rate": str(rate)}
        for number in range(clients)
    }
    return MetadataImage(client_quotas=ClientQuotas(configs))


def quota_of(server: Server, client: int) -> float | None:
    """The bytes that a client may produce in a second; None: any."""
    if server.shared.quotas is None:
        return None
    sensor = server.shared.quotas.produce.sensors.of("User:ANONYMOUS", f"c{client}", 0)
    return None if sensor is None else sensor.limit


async def rounds_until(is_so: Callable[[], bool]) -> int:
    """Let the loop run until something is so; return how many rounds that took."""
    rounds = 0
    while not is_so():
        await asyncio.sleep(0)
        rounds += 1
    return rounds


def test_taking_many_quotas_does_not_hold_the_event_loop(harness: Harness) -> None:
    async def take() -> tuple[float, int]:
        quotas = BrokerQuotas(harness.config, harness.server, None, 1)
        few, new = image(10, 1), image(10)
        quotas.follow(MetadataImage(), few)  # imports what the first quota needs
        started = time.thread_time()
        quotas.follow(few, new)
        seconds = time.thread_time() - started
        return seconds, await rounds_until(lambda: quota_of(harness.server, MANY - 1) == 10)

    seconds, rounds = harness.run(take())
    assert not is_long(seconds)
    assert rounds > 1


def test_a_change_among_many_users_without_quotas_does_not_hold_the_event_loop(harness: Harness) -> None:
    users = {quota_entity({"user": f"u{number}"}): {"SCRAM-SHA-256": "x"} for number in range(10 * MANY)}

    async def take() -> float:
        quotas = BrokerQuotas(harness.config, harness.server, None, 1)
        first = MetadataImage(client_quotas=ClientQuotas(users))
        quotas.follow(MetadataImage(), first)
        address = quota_entity({"ip": "127.0.0.1"})
        changes = {address: {"connection_creation_rate": "1"}}
        started = time.thread_time()
        quotas.follow(first, MetadataImage(client_quotas=first.client_quotas.with_changes(changes)))
        seconds = time.thread_time() - started
        limits, now = harness.server.limits, time.monotonic()
        await rounds_until(lambda: limits.seconds_to_hold("PLAINTEXT", "127.0.0.1", now) > 0)
        assert harness.server.shared.quotas is None
        return seconds

    assert not is_long(harness.run(take()))


def test_quotas_that_change_while_others_are_taken_count_in_the_end(harness: Harness) -> None:
    async def take() -> None:
        quotas = BrokerQuotas(harness.config, harness.server, None, 1)
        first, second = image(10), image(20, MANY // 2)
        quotas.follow(MetadataImage(), first)
        quotas.follow(first, second)
        server = harness.server
        await rounds_until(lambda: quota_of(server, 0) == 20 and quota_of(server, MANY - 1) is None)

    harness.run(take())


def test_the_last_quotas_may_go_while_they_are_taken(harness: Harness) -> None:
    async def take() -> None:
        quotas = BrokerQuotas(harness.config, harness.server, None, 1)
        first = image(10)
        quotas.follow(MetadataImage(), first)
        await rounds_until(lambda: harness.server.shared.quotas is not None)
        quotas.follow(first, MetadataImage())
        await rounds_until(lambda: harness.server.shared.quotas is None)

    harness.run(take())
