"""The first batches of producers that a leader has refused.

A leader takes any first sequence number of a producer that it does not know (storage/log/producers.py). If it
refuses a producer's first batch for lack of replicas, and then takes the next one, which was already in
flight, the records are out of order: the retry of the first batch no longer fits, and the client sends it
again in a new epoch. So the next one is refused too, with OUT_OF_ORDER_SEQUENCE_NUMBER, as it is if the
producer is known: clients retry their batches in order then. Apache Kafka has this gap.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    from kafkapy.protocol.records import BatchHeader
    from kafkapy.storage.log.producers import ProducerStates

_MOST: Final = 1000
"""The producers that are remembered; the oldest is forgotten."""


class RefusedBatches:
    """What a leader remembers of the batches that it has refused, in one leader epoch."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """The epoch and first sequence number by producer id."""

    def note(self, header: BatchHeader, known: ProducerStates) -> None:
        """Remember a refused batch, if it is the first one of its producer."""
        producer, epoch = header.producer_id, header.producer_epoch
        if header.base_sequence == NO_SEQUENCE:
            return
        entry = known.get(producer)
        if producer == NO_PRODUCER_ID or (entry is not None and entry.epoch == epoch):
            return
        if self._first.get(producer, (None, 0))[0] != epoch:
            self._first[producer] = epoch, header.base_sequence
            if len(self._first) > _MOST:
                self._first.popitem(last=False)

    def check(self, header: BatchHeader) -> None:
        """Let a batch pass, unless a refused one has to come before it.

        Batches without sequence numbers pass: those of coordinators, such as transaction markers.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if not self._first or header.base_sequence == NO_SEQUENCE:
            return
        epoch, sequence = self._first.get(header.producer_id, (header.producer_epoch, header.base_sequence))
        if epoch == header.producer_epoch and sequence != header.base_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Sequence {sequence} of producer {header.producer_id} was refused, and comes first.",
            )
        self._first.pop(header.producer_id, None)
