"""Which batches have to wait for one that was refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.process.refused_batches import MOST, SECONDS, RefusedBatches
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

PLACE = ("orders", 0)
NOBODY: Any = {}


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
        return error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return True


class Clock:
    """Seconds that the test lets pass."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def batches(clock: Clock) -> RefusedBatches:
    refused = RefusedBatches(clock)
    refused.note(PLACE, header(3))
    return refused


def test_later_ones_wait_until_the_first_one_comes_again(batches: RefusedBatches) -> None:
    batches.note(PLACE, header(4))
    assert not passes(batches, header(4))
    assert not passes(batches, header(5))
    assert passes(batches, header(3))
    assert passes(batches, header(4))


def test_earlier_ones_do_not_wait(batches: RefusedBatches) -> None:
    assert passes(batches, header(2))
    assert passes(batches, header(MAX_SEQUENCE))  # the numbers begin again after it
    assert not passes(batches, header(4))


def test_one_that_does_not_come_again_is_forgotten(batches: RefusedBatches, clock: Clock) -> None:
    clock.seconds += SECONDS - 1
    assert not passes(batches, header(4))
    clock.seconds += 1
    assert passes(batches, header(5))
    assert len(batches) == 0


def test_a_batch_of_an_earlier_epoch_changes_nothing(batches: RefusedBatches) -> None:
    batches.note(PLACE, header(0, epoch=1))
    assert passes(batches, header(4))
    assert not passes(batches, header(1, epoch=1))


def test_other_producers_epochs_and_partitions_do_not_wait(batches: RefusedBatches) -> None:
    assert passes(batches, header(5, producer_id=8))
    assert passes(batches, header(5), place=("orders", 1))
    assert passes(batches, header(0, epoch=1))


def test_a_partition_that_knows_the_producer_checks_its_sequence_numbers(batches: RefusedBatches) -> None:
    assert not passes(batches, header(5), {7: SimpleNamespace(epoch=1)})
    assert passes(batches, header(5), {7: SimpleNamespace(epoch=0)})
    batches.note(PLACE, header(5))  # the partition has refused it
    assert not passes(batches, header(5))
    assert passes(batches, header(3))


def test_batches_without_sequence_numbers_are_not_remembered() -> None:
    refused = RefusedBatches(lambda: 0.0)
    refused.note(PLACE, header(NO_SEQUENCE, NO_PRODUCER_ID, -1))
    assert len(refused) == 0


def test_the_oldest_is_forgotten(batches: RefusedBatches) -> None:
    for producer_id in range(100, 100 + MOST):
        batches.note(PLACE, header(0, producer_id))
    assert len(batches) == MOST
    assert passes(batches, header(5))
    assert not passes(batches, header(5, 100))
