"""The batches of idempotent producers that were refused on one connection.

A partition takes any first sequence number of a producer that it does not know (storage/log/producers.py). A
producer's first batch may be refused for a while: the broker does not lead yet, too few replicas are in sync,
the disk is full. If the next one, which was already in flight, were taken, the records would be out of order:
the retry of the first batch would not fit any more, and the client would send it again in a new epoch. So
those in flight are refused too, with OUT_OF_ORDER_SEQUENCE_NUMBER, as they are if the producer is known.
Clients then send their batches again in order. Apache Kafka has this gap.

A client that connects anew begins with its first batch that is not acknowledged, so a connection need not
know what was refused on another one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    from kafkapy.protocol.records import BatchHeader
    from kafkapy.storage.log.producers import ProducerStates

IN_FLIGHT: Final = 5
"""What `max.in.flight.requests.per.connection` of an idempotent producer may be at most."""

MOST: Final = 256
"""The refused batches that are remembered; the oldest is forgotten."""

Place = tuple[str | bytes, int]
"""A partition: the name or id of its topic, as requests give it, and its number."""


class RefusedBatch:
    """The first batch of a producer that a partition has refused."""

    __slots__ = ("epoch", "in_flight", "sequence")

    def __init__(self, epoch: int, sequence: int) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.in_flight = IN_FLIGHT - 1
        """How many later batches may have been sent before the client heard of this one."""


class RefusedBatches:
    """What is remembered of the refused batches of a connection."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: OrderedDict[tuple[Place, int], RefusedBatch] = OrderedDict()
        """By partition and producer id."""

    def __len__(self) -> int:
        return len(self._first)

    def note(self, place: Place, header: BatchHeader) -> None:
        """Remember a refused batch, unless an earlier one of its producer is remembered."""
        if header.producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            return
        key = place, header.producer_id
        found = self._first.get(key)
        if found is None or found.epoch != header.producer_epoch:
            self._first[key] = RefusedBatch(header.producer_epoch, header.base_sequence)
            if len(self._first) > MOST:
                self._first.popitem(last=False)

    def check(self, place: Place, header: BatchHeader, known: ProducerStates) -> None:
        """Let a batch pass, unless a refused one has to come before it.

        `known` are the producers that the partition knows, whose sequence numbers it checks itself.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        key = place, header.producer_id
        first = self._first.get(key)
        if first is None:
            return
        state, epoch = known.get(header.producer_id), header.producer_epoch
        was_in_flight = first.epoch == epoch and first.sequence != header.base_sequence and first.in_flight
        if was_in_flight and (state is None or state.epoch != epoch):
            first.in_flight -= 1
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Sequence {first.sequence} of producer {header.producer_id} was refused, and comes first.",
            )
        del self._first[key]
