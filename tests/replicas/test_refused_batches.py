"""Which batches have to wait for one that was refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import (
    MAX_SEQUENCE,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    build_batch,
    read_header,
)
from kafkapy.replicas.refused_batches import MOST, SECONDS, RefusedBatches
from tests.loop.turned_clock import TurnedClock

PLACE = ("orders", 0)
NOBODY: Any = {}
REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS


def header(sequence: int, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    record = Record(-1, 0, None, b"value", [])
    return read_header(
        build_batch([record], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def passes(
    batches: RefusedBatches, batch: BatchHeader, known: Any = NOBODY, place: tuple[str | bytes, int] = PLACE
) -> bool:
    try:
        batches.check(place, batch, known)
    except KafkaError as error:
        refusal = error.code
    else:
        return True
    assert refusal is REFUSED
    return False


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def batches(clock: TurnedClock) -> RefusedBatches:
    refused = RefusedBatches(clock.monotonic)
    refused.note(PLACE, header(3), REFUSED)
    return refused


def test_later_ones_wait_until_the_first_one_comes_again(batches: RefusedBatches) -> None:
    batches.note(PLACE, header(4), REFUSED)
    assert not passes(batches, header(4))
    assert not passes(batches, header(5))
    assert passes(batches, header(3))
    assert passes(batches, header(4))


def test_earlier_ones_do_not_wait(batches: RefusedBatches) -> None:
    assert passes(batches, header(2))
    assert passes(batches, header(MAX_SEQUENCE))  # the numbers begin again after it
    assert not passes(batches, header(4))


def test_one_that_does_not_come_again_is_forgotten(batches: RefusedBatches, clock: TurnedClock) -> None:
    clock.seconds += SECONDS - 1
    assert not passes(batches, header(4))
    clock.seconds += 1
    assert passes(batches, header(5))
    assert len(batches) == 0


def test_a_batch_of_an_earlier_epoch_changes_nothing(batches: RefusedBatches) -> None:
    batches.note(PLACE, header(0, epoch=1), REFUSED)
    assert passes(batches, header(4))
    assert not passes(batches, header(1, epoch=1))


def test_other_producers_epochs_and_partitions_do_not_wait(batches: RefusedBatches) -> None:
    assert passes(batches, header(5, producer_id=8))
    assert passes(batches, header(5), place=("orders", 1))
    assert passes(batches, header(0, epoch=1))


def state(last_sequence: int, epoch: int = 0) -> Any:
    """What a partition knows of the producer."""
    return {7: SimpleNamespace(epoch=epoch, last_sequence=last_sequence)}


def test_later_ones_wait_though_the_partition_knows_their_producer(batches: RefusedBatches) -> None:
    assert not passes(batches, header(4), state(2))
    assert not passes(batches, header(4), state(NO_SEQUENCE))
    assert not passes(batches, header(4), state(90, epoch=1))


def test_none_waits_for_one_that_another_leader_has_written(batches: RefusedBatches) -> None:
    assert passes(batches, header(9), state(3))
    assert len(batches) == 0


def test_none_waits_if_it_was_written_before_the_numbers_began_again(clock: TurnedClock) -> None:
    batches = RefusedBatches(clock.monotonic)
    batches.note(PLACE, header(MAX_SEQUENCE), REFUSED)
    assert not passes(batches, header(0), state(MAX_SEQUENCE - 1))
    assert passes(batches, header(5), state(4))


def test_batches_without_sequence_numbers_are_not_remembered() -> None:
    refused = RefusedBatches(lambda: 0.0)
    refused.note(PLACE, header(NO_SEQUENCE, NO_PRODUCER_ID, -1), REFUSED)
    assert len(refused) == 0


def test_the_oldest_is_forgotten(batches: RefusedBatches) -> None:
    for producer_id in range(100, 100 + MOST):
        batches.note(PLACE, header(0, producer_id), REFUSED)
    assert len(batches) == MOST
    assert passes(batches, header(5))
    assert not passes(batches, header(5, 100))
