"""Validation that takes long.

Acknowledgements do not wait for it, and who costs little goes first.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.loop.validation import LIGHT_SECONDS, MEMORY_SECONDS, Validation
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.records import Compression
from kafkapy.protocol.types import ZERO_UUID
from kafkapy.storage.log.new_log import NewLogFiles
from kafkapy.storage.log.validate import prepare_batches
from tests.handlers.produce_client import PRODUCE_VERSION, batch, create_topic, produce, produce_request
from tests.network.raw_client import RawClient, eventually
from tests.twins import without_compiled_parts

DEADLINE = 60.0
BOMBERS = 40


class Gate:
    """Validation of large batches that stops until the test lets it continue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stopped = 0
        self.threads: set[int] = set()
        """Which threads have validated a batch to its end."""
        self._open = threading.Event()
        monkeypatch.setattr("kafkapy.handlers.partition_write.prepare_batches", self._prepare_batches)

    def _prepare_batches(self, records: memoryview, **options: Any) -> Any:
        if len(records) > 10_000:
            self.stopped += 1
            assert self._open.wait(DEADLINE)
        prepared = prepare_batches(records, **options)
        self.threads.add(threading.get_ident())
        return prepared

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open()


def loop_thread_of(broker: kafkapy.Broker) -> int:
    """The thread of a broker's event loop: others in this process have one of the same name."""

    async def ident(_: BrokerCore) -> int:
        return threading.get_ident()

    return broker.call(ident)


@pytest.mark.parametrize("kafka_broker_config", [{"durability": "fsync"}])
def test_acknowledgements_do_not_wait_for_the_validation_of_others(
    gate: Gate, kafka_broker: kafkapy.Broker
) -> None:
    bomb = batch(bytes(20 << 20), compression=Compression.GZIP)
    clients = [RawClient(kafka_broker.bootstrap_servers) for _ in range(BOMBERS + 1)]
    honest, *bombers = clients
    create_topic(honest, "orders")
    for bomber in bombers:
        bomber.send(encode_request(produce_request("orders", bomb), PRODUCE_VERSION, 1, "bomber"))
    eventually(lambda: gate.stopped > 0, "a bomb is validated")
    for offset in range(5):
        (answer,) = produce(honest, "orders", batch(b"honest"))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, offset)
    gate.open()
    for bomber in bombers:
        bomber.receive_frame()
    for client in clients:
        client.close()


def test_a_small_batch_that_decompresses_to_much_is_validated_in_a_thread(
    gate: Gate, kafka_broker: kafkapy.Broker
) -> None:
    loop_thread = loop_thread_of(kafka_broker)
    with RawClient(kafka_broker.bootstrap_servers) as client:
        create_topic(client, "orders", 2)
        small = batch(bytes(3_000_000), compression=Compression.GZIP)
        assert len(small) < 4096
        assert [answer.error_code for answer in produce(client, "orders", batch(b"a"), small)] == [0, 0]
        assert loop_thread in gate.threads
        assert len(gate.threads) == 2
        gate.threads.clear()
        honest = batch(b"honest" * 100, compression=Compression.GZIP)
        assert [answer.error_code for answer in produce(client, "orders", honest, honest)] == [0, 0]
        assert gate.threads == {loop_thread}


def test_a_log_whose_files_were_just_made_needs_no_thread(gate: Gate, kafka_broker: kafkapy.Broker) -> None:
    """Upkeep may not have noticed it yet, and all threads may be busy."""
    loop_thread = loop_thread_of(kafka_broker)

    async def just_made(core: BrokerCore) -> None:
        log = core.replicas.partition("orders", 0).log
        log.new_files = NewLogFiles(log.log_directory.files, log.path, ZERO_UUID, 0)
        log.new_files.give_up()

    with RawClient(kafka_broker.bootstrap_servers) as client:
        create_topic(client, "orders")
        produce(client, "orders", batch(b"first"))
        gate.threads.clear()
        kafka_broker.call(just_made)
        (answer,) = produce(client, "orders", batch(b"second"))
        assert answer.error_code == ErrorCode.NONE
        assert gate.threads == {loop_thread}


# --- whose turn it is ---------------------------------------------------------------------------------------


def connection(debt: float = 0.0) -> Any:
    """A connection that pays its debt off in so many seconds."""
    return SimpleNamespace(validation_paid_at=asyncio.get_running_loop().time() + debt)


def validation_of(threads: int) -> Validation:
    return Validation(ThreadPoolExecutor(threads), threads)


class Work:
    """Calls that are at work until the test ends them."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._ends: dict[str, threading.Event] = {}

    def call(self, name: str) -> Callable[[], str]:
        end = self._ends[name] = threading.Event()

        def work() -> str:
            self.begun.append(name)
            assert end.wait(DEADLINE)
            return name

        return work

    def end(self, *names: str) -> None:
        for name in names or list(self._ends):
            self._ends[name].set()

    async def begins(self, count: int) -> None:
        """Until so many have begun, and no more."""
        async with asyncio.timeout(DEADLINE):
            while len(self.begun) < count:  # noqa: ASYNC110  threads tell nobody
                await asyncio.sleep(0.001)
        assert len(self.begun) == count


async def test_the_last_thread_is_for_those_who_have_cost_little() -> None:
    validation, work = validation_of(3), Work()
    costly = [
        asyncio.ensure_future(validation.run(connection(debt=5), work.call(f"costly {number}")))
        for number in range(5)
    ]
    await work.begins(2)
    light = asyncio.ensure_future(validation.run(connection(), work.call("light")))
    await work.begins(3)
    assert work.begun[2] == "light"
    work.end()
    assert await asyncio.gather(*costly, light)
    validation.close()


async def test_who_has_cost_less_goes_first() -> None:
    validation, work = validation_of(2), Work()
    debts = {"first": 1.0, "most": 9.0, "more": 5.0, "less": 3.0}
    waiting = [
        asyncio.ensure_future(validation.run(connection(debt), work.call(name)))
        for name, debt in debts.items()
    ]
    for number, name in enumerate(("first", "less", "more", "most"), 1):
        await work.begins(number)
        assert work.begun[-1] == name
        work.end(name)
    await asyncio.gather(*waiting)
    validation.close()


async def test_cpu_time_is_a_debt_that_is_paid_off() -> None:
    validation, bomber = validation_of(2), connection()
    loop = asyncio.get_running_loop()

    def burn() -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass

    await validation.run(bomber, burn)
    debt = bomber.validation_paid_at - loop.time()
    assert debt > LIGHT_SECONDS
    for _ in range(25):
        bomber.validation_paid_at += 1
        await validation.run(bomber, lambda: None)
    assert bomber.validation_paid_at <= loop.time() + MEMORY_SECONDS
    validation.close()


async def test_a_call_that_fails_makes_room_for_the_next() -> None:
    validation, client = validation_of(2), connection()

    def fail() -> None:
        raise ValueError("of the call")

    for _ in range(5):
        with pytest.raises(ValueError, match="of the call"):
            await validation.run(client, fail)
    assert await validation.run(client, lambda: "done") == "done"
    validation.close()


@pytest.mark.parametrize(
    "batches",
    [
        (batch(*[b""] * 10_000),),
        (batch(*[b""] * 1000), batch(*[b""] * 1000)),
        (batch(*[b""] * 10_000, compression=Compression.ZSTD),),
    ],
    ids=["one large", "some together", "small, and decompresses to much"],
)
def test_without_the_compiled_walker_much_is_validated_in_a_thread(
    batches: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch, kafka_broker: kafkapy.Broker
) -> None:
    gate = Gate(monkeypatch)
    gate.open()
    without_compiled_parts(monkeypatch)
    loop_thread = loop_thread_of(kafka_broker)
    with RawClient(kafka_broker.bootstrap_servers) as client:
        create_topic(client, "orders", len(batches))
        produce(client, "orders", *[batch(b"first")] * len(batches))
        gate.threads.clear()
        for answer in produce(client, "orders", *batches):
            assert answer.error_code == 0
        assert gate.threads
        assert loop_thread not in gate.threads
        gate.threads.clear()
        produce(client, "orders", *[batch(b"little")] * len(batches))
        assert gate.threads == {loop_thread}
