"""Transactions that hang: open in a partition, but not known to their coordinator.

They come from clients whose batches arrived late (KIP-890), and hold back all consumers of the partition
that read what is committed. Only a marker that somebody asks for ends them.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkapy.handlers.context import BrokerParts
from kafkapy.handlers.per_partition import answer_in_steps, visit_partitions
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.metadata import TransactionMetadata


class HangingTransactions:
    """The transactions in markers that hang.

    This broker is alone, so that it coordinates all transactions.
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker
        self._began: dict[tuple[int, TopicPartition], int] = {}
        """Where each transaction began, by its producer id and partition."""

    def find(self, markers: Iterable[WritableTxnMarker]) -> Steps[None]:
        """Find those that are open in partitions, and then leave out the coordinator's.

        A coordinator has a transaction before it begins in a partition, and until it has ended there.
        """

        def look(marker: WritableTxnMarker) -> Steps[None]:
            def look_in(topic: WritableTxnMarkerTopic, index: int) -> None:
                key = marker.producer_id, TopicPartition(topic.name, index)
                began = self._open_since(*key)
                if began is not None:
                    self._began[key] = began

            return visit_partitions(marker.topics, lambda topic: topic.partition_indexes, look_in)

        def leave_out(known: TransactionMetadata, partition: TopicPartition) -> None:
            self._began.pop((known.producer_id, partition), None)
            self._began.pop((known.previous_producer_id, partition), None)

        yield from answer_in_steps(markers, look)
        if self._began:
            yield from visit_partitions(
                self._broker.transactions.listed(), lambda known: known.partitions, leave_out
            )

    def has(self, producer_id: int, partition: TopicPartition) -> bool:
        """Whether a transaction hung when it was looked for, and is open still."""
        began = self._began.get((producer_id, partition))
        return began is not None and began == self._open_since(producer_id, partition)

    def _open_since(self, producer_id: int, partition: TopicPartition) -> int | None:
        """The first offset of the transaction that a producer has open in a partition."""
        try:
            log = self._broker.replicas.partition(*partition).log
        except KafkaError:
            return None
        entry = log.producers.get(producer_id)
        return None if entry is None or entry.txn_first_offset < 0 else entry.txn_first_offset
