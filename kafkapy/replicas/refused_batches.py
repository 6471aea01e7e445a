"""The batches of idempotent producers that a broker has refused for a while.

The broker may not lead yet, too few replicas may be in sync, or the disk may be full. The next batches are in
flight already. A partition that does not know the producer would take one of them, since it takes any first
sequence number (storage/log/producers.py), and the records would be out of order. If it knows the producer,
it would refuse them with OUT_OF_ORDER_SEQUENCE_NUMBER. Then librdkafka begins a new epoch, and sends all that
is not acknowledged again, to all partitions: what they have already is there twice. Apache Kafka has both
gaps. So the batches in flight get the error of the first one, and clients send all of them again in order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import MAX_SEQUENCE, NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    from kafkapy.protocol.records import BatchHeader
    from kafkapy.storage.log.producers import ProducerStates

SECONDS: Final = 30.0
"""How long a batch is remembered: for this time, `request.timeout.ms` of clients, others may be in flight."""

MOST: Final = 10_000
"""The batches that are remembered; the oldest is forgotten."""

Place = tuple[str | bytes, int]
"""A partition: the name or id of its topic, as requests give it, and its number."""


class RefusedBatch(NamedTuple):
    """The first batch of a producer that a partition has refused."""

    epoch: int
    sequence: int
    error: ErrorCode
    until: float
    """The time at which it is forgotten."""


class RefusedBatches:
    """What a broker remembers of the batches that it has refused."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns seconds of a monotonic clock."""
        self._now = now
        self._first: OrderedDict[tuple[Place, int], RefusedBatch] = OrderedDict()
        """By partition and producer id."""

    def __len__(self) -> int:
        return len(self._first)

    def note(self, place: Place, header: BatchHeader, error: ErrorCode) -> None:
        """Remember a batch that was refused with `error`, unless an earlier one of its producer is."""
        if header.producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            return
        key, epoch = (place, header.producer_id), header.producer_epoch
        found = self._first.get(key)
        if found is None or found.epoch != epoch:
            self._first[key] = RefusedBatch(epoch, header.base_sequence, error, self._now() + SECONDS)
            if len(self._first) > MOST:
                self._first.popitem(last=False)

    def check(self, place: Place, header: BatchHeader, known: ProducerStates) -> None:
        """Let a batch pass, unless a refused one has to come before it.

        `known` are the producers that the partition knows. If it has the refused batch meanwhile, as it may
        have when another broker has led, nothing waits.

        Raises:
            KafkaError: the error of the refused batch, so that this one is sent again after it.
        """
        if not self._first:
            return
        key, epoch = (place, header.producer_id), header.producer_epoch
        first = self._first.get(key)
        if first is None or first.epoch != epoch:
            return
        ahead = _distance(first.sequence, header.base_sequence)
        state = known.get(header.producer_id)
        is_written = (
            state is not None
            and state.epoch == epoch
            and state.last_sequence != NO_SEQUENCE
            and _distance(first.sequence, state.last_sequence) >= 0
        )
        if ahead == 0 or is_written or first.until <= self._now():
            del self._first[key]
        elif ahead > 0:  # one before it was written, and is gone with a leader that lost it
            raise KafkaError(
                first.error, f"Sequence {first.sequence} of producer {header.producer_id} comes first."
            )


def _distance(start: int, end: int) -> int:
    """By how much the sequence number `end` is ahead of `start`; negative if it is behind.

    The numbers begin again after the highest.
    """
    ahead = (end - start) & MAX_SEQUENCE
    return ahead if ahead <= MAX_SEQUENCE // 2 else ahead - MAX_SEQUENCE - 1
