"""The first batches of idempotent producers that a broker has refused.

A partition takes any first sequence number of a producer that it does not know (storage/log/producers.py). A
producer's first batch may be refused for a while: the broker does not lead yet, too few replicas are in sync,
the disk is full. If the next one, which was already in flight, were taken, the records would be out of order:
the retry of the first batch would not fit any more, and the client would send it again in a new epoch. So
those in flight are refused too, with OUT_OF_ORDER_SEQUENCE_NUMBER, as they are if the producer is known.
Clients then send their batches again in order. Apache Kafka has this gap.
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

    def note(self, place: Place, header: BatchHeader) -> None:
        """Remember a refused batch, unless an earlier one of its producer is remembered."""
        if header.producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            return
        key, epoch = (place, header.producer_id), header.producer_epoch
        found = self._first.get(key)
        if found is None or found.epoch != epoch:
            self._first[key] = RefusedBatch(epoch, header.base_sequence, self._now() + SECONDS)
            if len(self._first) > MOST:
                self._first.popitem(last=False)

    def check(self, place: Place, header: BatchHeader, known: ProducerStates) -> None:
        """Let a batch pass, unless a refused one has to come before it.

        `known` are the producers that the partition knows, whose sequence numbers it checks itself. A
        follower may know one no more when it leads: it truncates what its leader does not have.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if not self._first:
            return
        key, epoch = (place, header.producer_id), header.producer_epoch
        first = self._first.get(key)
        if first is None or first.epoch != epoch:
            return
        ahead = (header.base_sequence - first.sequence) & MAX_SEQUENCE
        if ahead == 0 or first.until <= self._now():
            del self._first[key]
            return
        if ahead > MAX_SEQUENCE // 2:
            return  # it comes before: it was written, and is gone with a leader that lost it
        state = known.get(header.producer_id)
        if state is not None and state.epoch == epoch:
            return
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Sequence {first.sequence} of producer {header.producer_id} was refused, and comes first.",
        )
