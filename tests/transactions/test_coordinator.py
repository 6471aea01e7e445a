"""The transaction coordinator: ends, restarts, failures, and time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.config import TransactionConfig
from kafkapy.transactions.markers import LATE_SECONDS, MOST_REQUESTS, Marker
from kafkapy.transactions.metadata import LAST_EPOCH, TransactionState
from kafkapy.transactions.records import encode_key, encode_value
from kafkapy.transactions.state_machine import Producer
from tests.transactions.transaction_world import T0, T1, U0, TransactionWorld

State = TransactionState
CONFIG = TransactionConfig()


@pytest.fixture
async def world() -> AsyncIterator[TransactionWorld]:
    made = await TransactionWorld().begin()
    yield made
    made.leaders.release()
    await made.coordinator.stop()


@pytest.fixture
async def old_world() -> AsyncIterator[TransactionWorld]:
    made = await TransactionWorld(version=0).begin()
    yield made
    await made.coordinator.stop()


async def error_of_init(world: TransactionWorld, *args: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await world.init(*args)  # type: ignore[arg-type]
    return caught.value.code


async def test_long_transactional_ids_are_taken_up_to_a_limit(world: TransactionWorld) -> None:
    world.coordinator.max_long_ids_bytes = 5_000
    await world.init("a" * 3_000)
    assert await error_of_init(world, "b" * 3_000) is ErrorCode.INVALID_REQUEST
    await world.init("a" * 3_000)
    await world.init("c" * 1_000)
    assert {found.transactional_id[0] for found in world.coordinator.listed()} == {"a", "c"}


@pytest.mark.parametrize("commit", [True, False])
async def test_an_end_writes_its_marker_to_all_partitions(world: TransactionWorld, commit: bool) -> None:
    producer = await world.init()
    assert producer == (1000, 0)
    assert await world.add(producer, T0, U0) is ErrorCode.NONE
    assert await world.add(producer, T1) is ErrorCode.NONE
    assert world.coordinator.verify("x", producer) == {T0, T1, U0}
    assert await world.end(producer, commit=commit) == (ErrorCode.NONE, (1000, 1))
    assert await world.completed() is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    marker = Marker(1000, 1, 0, commit, 2)
    assert world.leaders.written == {T0: [marker], T1: [marker], U0: [marker]}
    assert len(world.leaders.requests) == 2, "one for each broker"
    assert world.coordinator.describe("x").partitions == frozenset()


async def test_the_next_transaction_begins_when_all_markers_are_written(world: TransactionWorld) -> None:
    world.leaders.hold.add(2)
    producer = await world.init()
    await world.add(producer, T0, U0)
    _, after = await world.end(producer, commit=True)
    assert await world.add(after, T0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (await world.end(producer, commit=True))[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await error_of_init(world) is ErrorCode.CONCURRENT_TRANSACTIONS
    await world.until(lambda: T0 in world.leaders.written)
    assert world.state() is State.PREPARE_COMMIT
    world.leaders.release()
    await world.completed()
    assert await world.add(after, T0) is ErrorCode.NONE
    assert await world.end(producer, commit=True) == (ErrorCode.PRODUCER_FENCED, (-1, -1))


async def test_a_slow_partition_delays_no_transactions_of_others(world: TransactionWorld) -> None:
    world.leaders.slow.add(T0)
    names = "xyz"
    producers = {name: await world.init(name) for name in names}
    await world.add(producers["x"], T0, name="x")
    await world.end(producers["x"], commit=True, name="x")
    await world.until(lambda: world.leaders.requests)
    await world.add(producers["y"], T1, name="y")
    await world.end(producers["y"], commit=True, name="y")
    assert await world.completed("y") is State.COMPLETE_COMMIT
    await world.add(producers["z"], T0, T1, name="z")
    await world.end(producers["z"], commit=False, name="z")
    await world.until(lambda: len(world.leaders.written[T1]) == 2)
    assert len(world.leaders.requests) == 3, "the slow partition is asked once"
    assert world.state("x") is State.PREPARE_COMMIT
    assert world.state("z") is State.PREPARE_ABORT
    world.leaders.release()
    assert await world.completed("x") is State.COMPLETE_COMMIT
    assert await world.completed("z") is State.COMPLETE_ABORT
    assert [marker.commit for marker in world.leaders.written[T0]] == [True, False]


async def test_requests_to_a_broker_are_as_many_as_connections_at_most(world: TransactionWorld) -> None:
    slow = [TopicPartition("t", number) for number in range(10, 10 + 2 * MOST_REQUESTS)]
    world.leaders.leaders |= dict.fromkeys(slow, 1)
    world.leaders.slow.update(slow)
    for number, partition in enumerate(slow):
        producer = await world.init(f"id{number}")
        await world.add(producer, partition, name=f"id{number}")
        await world.end(producer, commit=True, name=f"id{number}")
        world.timers.advance(LATE_SECONDS)
        await asyncio.sleep(0)
    world.timers.advance(10 * LATE_SECONDS)
    await asyncio.sleep(0)
    assert len(world.leaders.requests) == MOST_REQUESTS
    world.leaders.release()
    for number in range(len(slow)):
        assert await world.completed(f"id{number}") is State.COMPLETE_COMMIT


async def test_a_marker_is_sent_until_it_is_written(world: TransactionWorld) -> None:
    producer = await world.init()
    await world.add(producer, T0, T1, U0)
    world.leaders.errors[T0] = ErrorCode.NOT_ENOUGH_REPLICAS
    world.leaders.leaders[T1] = -1
    world.leaders.unreachable.add(2)
    await world.end(producer, commit=True)
    await world.until(lambda: len(world.leaders.requests) > 6)
    assert world.state() is State.PREPARE_COMMIT
    world.leaders.errors.clear()
    world.leaders.leaders |= {T1: 2, U0: 1}
    await world.until(lambda: {T0, U0} <= world.leaders.written.keys())
    assert world.state() is State.PREPARE_COMMIT
    world.leaders.unreachable.clear()
    assert await world.completed() is State.COMPLETE_COMMIT
    assert {key: len(markers) for key, markers in world.leaders.written.items()} == {T0: 1, T1: 1, U0: 1}


async def test_a_partition_that_is_gone_needs_no_marker(world: TransactionWorld) -> None:
    producer = await world.init()
    await world.add(producer, T0, U0)
    del world.leaders.leaders[U0]
    await world.end(producer, commit=False)
    assert await world.completed() is State.COMPLETE_ABORT
    assert world.leaders.written.keys() == {T0}


@pytest.mark.parametrize("commit", [True, False])
async def test_the_next_coordinator_ends_what_was_prepared(world: TransactionWorld, commit: bool) -> None:
    world.leaders.hold.add(2)
    producer = await world.init()
    await world.add(producer, T0, U0)
    await world.end(producer, commit=commit)
    world.leaders.hold.clear()
    world.log.epoch = 5
    await world.restart()
    assert await world.completed() is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert world.leaders.written[U0][-1] == Marker(1000, 1, 5, commit, 2)
    assert await world.end(producer, commit=commit) == (ErrorCode.NONE, (1000, 1)), "the answer was lost"


async def test_an_end_that_was_not_written_is_none(world: TransactionWorld) -> None:
    producer = await world.init()
    await world.add(producer, T0)
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await world.end(producer, commit=True) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, (-1, -1))
    world.log.error = ErrorCode.NONE
    assert world.state() is State.ONGOING
    await world.restart()
    assert world.state() is State.ONGOING
    assert await world.end(producer, commit=False) == (ErrorCode.NONE, (1000, 1))


async def test_an_end_that_cannot_be_completed_is_completed_later(world: TransactionWorld) -> None:
    world.leaders.hold.add(1)
    producer = await world.init()
    await world.add(producer, T0)
    await world.end(producer, commit=True)
    await world.until(lambda: world.leaders.requests)
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.leaders.release()
    await world.until(lambda: T0 in world.leaders.written)
    assert world.state() is State.PREPARE_COMMIT
    world.log.error = ErrorCode.NONE
    assert await world.completed() is State.COMPLETE_COMMIT


async def test_a_change_that_is_being_written_is_not_seen(world: TransactionWorld) -> None:
    producer = await world.init()
    world.log.hold = True
    adding = asyncio.create_task(world.add(producer, T0))
    await asyncio.sleep(0)
    assert world.state() is State.EMPTY
    assert await world.add(producer, T1) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.log.release()
    assert await adding is ErrorCode.NONE
    assert world.state() is State.ONGOING


async def test_a_transaction_that_takes_too_long_is_aborted(world: TransactionWorld) -> None:
    producer = await world.init()
    await world.add(producer, T0)
    await world.restart()
    world.timers.advance(60)
    assert world.state() is State.ONGOING
    world.timers.advance(CONFIG.timeout_check_interval_ms / 1000)
    assert await world.completed() is State.COMPLETE_ABORT
    assert world.leaders.written[T0] == [Marker(1000, 1, 0, False, 2)]
    assert (await world.end(producer, commit=True))[0] is ErrorCode.INVALID_TXN_STATE
    assert await world.end(producer, commit=False) == (ErrorCode.NONE, (1000, 1))
    assert await world.init() == (1000, 2)
    assert (await world.end(producer, commit=False))[0] is ErrorCode.PRODUCER_FENCED


async def test_a_new_producer_fences_the_one_before(world: TransactionWorld) -> None:
    producer = await world.init()
    await world.add(producer, T0)
    assert await error_of_init(world) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await world.completed() is State.COMPLETE_ABORT
    successor = await world.init()
    assert successor == (1000, 2)
    assert await world.add(producer, T0) is ErrorCode.PRODUCER_FENCED
    assert await world.add(successor, T0) is ErrorCode.NONE


async def test_old_clients_keep_their_epoch(old_world: TransactionWorld) -> None:
    producer = await old_world.init()
    for commit in (True, False):
        assert await old_world.add(producer, T0) is ErrorCode.NONE
        assert await old_world.end(producer, commit=commit) == (ErrorCode.NONE, producer)
        assert await old_world.completed() is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
        assert old_world.leaders.written[T0][-1] == Marker(1000, 0, 0, commit, 0)


async def test_a_producer_id_is_replaced_when_its_epochs_are_used_up(world: TransactionWorld) -> None:
    producer = await world.init()
    metadata = world.coordinator.describe("x")._replace(producer_epoch=LAST_EPOCH)
    world.coordinator.runtime.write("x", [(encode_key("x"), encode_value(metadata, 2))])
    await world.restart()
    last = Producer(producer.id, LAST_EPOCH)
    await world.add(last, T0)
    assert await world.end(last, commit=True) == (ErrorCode.NONE, (1001, 0))
    await world.completed()
    assert world.leaders.written[T0] == [Marker(1000, LAST_EPOCH + 1, 0, True, 2)]
    assert await world.add(Producer(1001, 0), T0) is ErrorCode.NONE


async def test_a_transaction_that_takes_too_long_at_the_last_epoch_gets_the_next_id(
    world: TransactionWorld,
) -> None:
    producer = await world.init()
    metadata = world.coordinator.describe("x")._replace(producer_epoch=LAST_EPOCH)
    world.coordinator.runtime.write("x", [(encode_key("x"), encode_value(metadata, 2))])
    await world.restart()
    last = Producer(producer.id, LAST_EPOCH)
    await world.add(last, T0)
    world.timers.advance(60 + CONFIG.timeout_check_interval_ms / 1000)
    await world.until(lambda: world.state() is State.COMPLETE_ABORT)
    assert world.leaders.written[T0] == [Marker(1000, LAST_EPOCH + 1, 0, False, 2)]
    assert (await world.end(last, commit=True))[0] is ErrorCode.INVALID_TXN_STATE
    assert await world.end(last, commit=False) == (ErrorCode.NONE, (1001, 0))
    assert await world.add(Producer(1001, 0), T0) is ErrorCode.NONE
    assert next(world.ids) == 1002, "one id was taken, however often the timeout was checked"


async def test_requests_are_refused_that_name_no_producer_here(world: TransactionWorld) -> None:
    assert await world.add(Producer(1, 0), T0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await world.add(Producer(1, 0), T0, name="") is ErrorCode.INVALID_REQUEST
    assert (await world.end(Producer(1, 0), commit=True))[0] is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await error_of_init(world, "") is ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, -1, CONFIG.max_timeout_ms + 1):
        assert await error_of_init(world, "x", None, timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    with pytest.raises(KafkaError) as caught:
        world.coordinator.describe("x")
    assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_an_id_whose_first_write_fails_does_not_exist(world: TransactionWorld) -> None:
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await error_of_init(world) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(world.coordinator.listed()) == []


async def test_ids_that_are_not_used_expire(world: TransactionWorld) -> None:
    await world.init("old")
    world.timers.advance(CONFIG.expiration_ms / 1000 - CONFIG.expiration_check_interval_ms / 1000)
    young = await world.init("young")
    busy = await world.init("busy", None, 900_000)
    world.timers.advance(2 * CONFIG.expiration_check_interval_ms / 1000 - 1)
    await world.add(busy, T0, name="busy")
    world.timers.advance(2)
    assert sorted(each.transactional_id for each in world.coordinator.listed()) == ["busy", "young"]
    await world.restart()
    assert sorted(each.transactional_id for each in world.coordinator.listed()) == ["busy", "young"]
    assert await world.add(young, T0, name="young") is ErrorCode.NONE


async def test_the_times_of_transactions_are_settings() -> None:
    config = TransactionConfig(
        max_timeout_ms=5_000,
        timeout_check_interval_ms=2_000,
        expiration_ms=60_000,
        expiration_check_interval_ms=20_000,
    )
    world = await TransactionWorld(config=config).begin()
    assert await error_of_init(world, "x", None, 5_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    await world.add(await world.init("x", None, 5_000), T0)
    world.timers.advance(4)
    assert world.state() is State.ONGOING
    world.timers.advance(2)
    assert world.state() is not State.ONGOING
    assert await world.completed() is State.COMPLETE_ABORT
    world.timers.advance(50)
    assert [each.transactional_id for each in world.coordinator.listed()] == ["x"]
    world.timers.advance(30)
    assert list(world.coordinator.listed()) == []
    await world.coordinator.stop()


async def test_a_partition_that_moves_away_takes_its_transactions_with_it() -> None:
    world = await TransactionWorld().begin()
    producer = await world.init()
    await world.add(producer, T0)
    world.leaders.hold.add(1)
    await world.end(producer, commit=True)
    await world.until(lambda: world.leaders.requests)
    world.coordinator.runtime.close_topic()
    assert list(world.coordinator.listed()) == []
    world.leaders.release()
    batches = [list(each) for each in world.log.batches]
    for _ in range(50):
        await asyncio.sleep(0)
        world.timers.advance(0.1)
    assert world.log.batches == batches, "it is not ended here"
    await world.coordinator.stop()


@pytest.mark.parametrize("seed", range(8))
async def test_restarts_at_any_step_tear_no_transaction(seed: int) -> None:
    """Markers of one transaction are equal in all partitions, whatever fails when."""
    chance = random.Random(seed)
    world = await TransactionWorld(version=chance.choice([0, 2])).begin()
    tasks: set[asyncio.Task[None]] = set()
    decided: dict[tuple[int, int], bool] = {}
    version = world.version

    async def run(name: str) -> None:
        """A client that makes transactions, and begins again after every error."""
        while True:
            try:
                producer = await world.init(name)
                for _ in range(5):
                    partitions = chance.sample([T0, T1, U0], chance.randint(1, 3))
                    if (
                        await world.add(producer, *partitions, name=name, version=version)
                        is not ErrorCode.NONE
                    ):
                        break
                    commit = chance.random() < 0.5
                    error, after = await world.end(producer, commit=commit, name=name, version=version)
                    if error is not ErrorCode.NONE:
                        break
                    if version == 2:
                        decided[producer.id, producer.epoch + 1] = commit
                    producer = after
            except KafkaError:
                pass
            await asyncio.sleep(0)

    def start() -> None:
        for name in ("a", "b", "c"):
            tasks.add(asyncio.create_task(run(name)))

    start()
    for _ in range(12):
        for _ in range(chance.randint(1, 60)):
            await asyncio.sleep(0)
            world.timers.advance(chance.choice([0, 0.01, 0.5]))
        world.log.error = chance.choice([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
        world.leaders.unreachable = set(chance.sample([1, 2], chance.choice([0, 0, 1])))
        if chance.random() < 0.4:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            tasks.clear()
            world.log.epoch += 1
            await world.restart()
            start()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    world.log.error = ErrorCode.NONE
    world.leaders.unreachable.clear()
    world.timers.advance(120)
    await world.until(lambda: all(each.state.is_at_rest for each in world.coordinator.listed()))
    outcomes: dict[tuple[int, int], set[bool]] = {}
    if version == 2:
        for markers in world.leaders.written.values():
            for marker in markers:
                outcomes.setdefault((marker.producer_id, marker.producer_epoch), set()).add(marker.commit)
        assert all(len(each) == 1 for each in outcomes.values()), "a transaction is torn"
        for transaction, commit in decided.items():
            assert outcomes[transaction] == {commit}, "the client was told otherwise"
    assert world.leaders.written
    await world.coordinator.stop()
