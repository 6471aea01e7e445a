"""A broker registers once, whatever its last run has left behind."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from kafkapy.loop.clock import Clock
from kafkapy.metadata import znodes
from kafkapy.metadata.image import Broker, MetadataImage
from kafkapy.metadata.registration import (
    Registration,
    require_known_name,
    require_own_place,
    require_reachable,
)
from kafkapy.metadata.store import (
    EventType,
    MetadataStore,
    MetadataStoreError,
    OutcomeUnknownError,
    Watcher,
    WatchEvent,
)
from kafkapy.metadata.znodes import BrokerInfo, Endpoint
from tests.loop.turned_clock import TurnedClock
from tests.metadata.intercepted_store import InterceptedStore, Multi
from tests.metadata.test_metadata_store import OpenSession, connect_store, open_session, store

__all__ = ["connect_store", "open_session", "store"]

INFO = BrokerInfo((Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),), "r")
ELSEWHERE = BrokerInfo((Endpoint("PLAINTEXT", "h", 9093, "PLAINTEXT"),), "r")
IN_USE = "broker id 1 is in use by another broker of this cluster, registered at PLAINTEXT://h:"


@pytest.fixture
async def old(open_session: OpenSession) -> MetadataStore:
    """The session of the broker's last run."""
    session = await open_session()
    for path in ("/brokers", znodes.BROKER_IDS):
        await session.create(path)
    return session


def registration(
    store: MetadataStore, info: BrokerInfo = INFO, patience: float = 65.0, clock: Clock | None = None
) -> Registration:
    return Registration(store, 1, info, clock or Clock(), patience)


async def test_the_epoch_is_the_number_of_the_transaction(store: MetadataStore, old: MetadataStore) -> None:
    registered = registration(store)
    assert not registered.is_current
    broker = await registered.register()
    assert registered.is_current
    node = await old.get("/brokers/ids/1")
    assert broker == Broker(1, "r", {"PLAINTEXT": INFO.endpoints[0]}, node.stat.created_zxid)
    assert node.stat.owner == store.session_id
    assert znodes.decode_broker("/brokers/ids/1", node.data) == INFO


async def test_the_session_of_the_last_run_is_waited_for(store: MetadataStore, old: MetadataStore) -> None:
    before = await registration(old).register()
    waiting = asyncio.create_task(registration(store).register())
    await _watched(store, "/brokers/ids/1")
    assert not waiting.done()
    await old.close()
    assert (await waiting).epoch > before.epoch


async def test_the_wait_begins_anew_when_the_connection_was_lost(
    store: InterceptedStore, old: MetadataStore
) -> None:
    clock = TurnedClock()
    watchers: list[Watcher] = []

    async def watched(exists: Any, path: str, watcher: Watcher | None) -> Any:
        if watcher is not None:
            watchers.append(watcher)
        return await exists(path, watcher)

    store.intercept("exists", watched)
    before = await registration(old).register()
    waiting = asyncio.create_task(registration(store, clock=clock).register())
    await _watched(store, "/brokers/ids/1")
    clock.turn(50)  # of 65 seconds
    watchers[0](WatchEvent(EventType.CHANGED, "/brokers/ids/1"))
    await _watched(store, "/brokers/ids/1")
    clock.turn(50)
    watchers[1](WatchEvent(EventType.CHANGED, "/brokers/ids/1"))
    await _watched(store, "/brokers/ids/1")
    assert (len(watchers), waiting.done()) == (3, False)
    await old.close()
    assert (await waiting).epoch > before.epoch


async def test_a_last_run_that_goes_on_is_one_clear_line(store: MetadataStore, old: MetadataStore) -> None:
    await registration(old).register()
    with pytest.raises(MetadataStoreError, match=f"{IN_USE}9092: set another broker.id"):
        await registration(store, patience=0.05).register()


async def test_a_broker_at_another_address_is_not_waited_for(
    store: MetadataStore, old: MetadataStore
) -> None:
    await registration(old, ELSEWHERE).register()
    with pytest.raises(MetadataStoreError, match=f"{IN_USE}9093: set another broker.id"):
        await registration(store).register()
    await old.set("/brokers/ids/1", b"?")
    with pytest.raises(MetadataStoreError, match="registered at no address"):
        await registration(store).register()


async def test_a_registration_whose_answer_was_lost_counts(
    store: InterceptedStore, old: MetadataStore
) -> None:
    async def lose_the_answer(multi: Multi, operations: Any) -> Any:
        await multi(operations)
        raise OutcomeUnknownError("the connection was lost")

    store.intercept("multi", lose_the_answer)
    assert (await registration(store).register()).epoch == (await old.get("/brokers/ids/1")).stat.created_zxid


async def _watched(store: MetadataStore, path: str) -> None:
    """Wait until all requests that a task has sent so far are answered."""
    for _ in range(10):
        await store.exists(path)


@pytest.mark.parametrize(
    ("broker_id", "info", "refusal"),
    [
        (1, INFO, None),
        (1, ELSEWHERE, f"{IN_USE}9092: set another broker.id, or stop that broker"),
        (2, ELSEWHERE, None),
        (2, INFO, "PLAINTEXT://h:9092 is the address of broker 1 already: set advertised.listeners"),
    ],
)
def test_an_id_and_an_address_have_one_broker(broker_id: int, info: BrokerInfo, refusal: str | None) -> None:
    image = MetadataImage().with_brokers([Broker(1, None, {"PLAINTEXT": INFO.endpoints[0]})], 1)
    if refusal is None:
        require_own_place(image, broker_id, info.endpoints)
        return
    with pytest.raises(MetadataStoreError, match=refusal):
        require_own_place(image, broker_id, info.endpoints)


@pytest.mark.parametrize("own", ["127.0.0.1", "localhost", "127.1.2.3", "::1"])
async def test_a_broker_that_brokers_on_other_machines_cannot_reach_is_refused(own: str) -> None:
    there = Endpoint("PLAINTEXT", "192.0.2.1", 9092, "PLAINTEXT")  # an address that nobody has
    image = MetadataImage().with_brokers([Broker(2, None, {"PLAINTEXT": there})], 2)
    endpoint = Endpoint("PLAINTEXT", own, 9093, "PLAINTEXT")
    with pytest.raises(MetadataStoreError) as caught:
        await require_reachable(image, 1, endpoint)
    assert str(caught.value) == (
        f"{endpoint} is an address of this machine only, and broker 2 is on another, at"
        " PLAINTEXT://192.0.2.1:9092: set listeners or advertised.listeners to an address at which others"
        " reach this broker."
    )
    await require_reachable(image, 2, endpoint)
    await require_reachable(image, 1, there._replace(port=9093))


async def test_a_broker_whose_name_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = socket.EAI_NONAME

    async def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(problem, "")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    endpoint = Endpoint("PLAINTEXT", "broker-1.test", 9093, "PLAINTEXT")
    with pytest.raises(
        MetadataStoreError, match=r"9093: the name broker-1\.test cannot be resolved: set listen"
    ):
        await require_known_name(endpoint)
    problem = socket.EAI_AGAIN  # the name server is away
    await require_known_name(endpoint)


@pytest.mark.parametrize("other", ["127.0.0.1", "localhost", "0.0.0.0", socket.gethostname()])
async def test_brokers_of_one_machine_may_have_its_own_addresses(other: str) -> None:
    endpoint = Endpoint("PLAINTEXT", other, 9092, "PLAINTEXT")
    image = MetadataImage().with_brokers([Broker(2, None, {"PLAINTEXT": endpoint})], 2)
    await require_reachable(image, 1, Endpoint("PLAINTEXT", "127.0.0.1", 9093, "PLAINTEXT"))
