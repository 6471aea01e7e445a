"""A transactional producer without a client library, of which each frame is known.

It speaks as Java's producer does with transaction.version 2 (Produce adds partitions, each transaction has an
epoch of its own: KIP-890), or as older producers do (AddPartitionsToTxn, one epoch for all).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.protocol.records import Record, build_batch
from tests.network.raw_client import RawClient
from tests.promises.history import (
    Acked,
    CommitAcked,
    CommitSent,
    History,
    Partition,
    Sent,
    TransactionEnded,
    TransactionEnding,
    checksum_of,
)

CORRELATION_ID = 7
TIMEOUT_MS = 60_000
_AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""What a producer answers by asking again."""
_PATIENCE = 30.0
_GROUP, _TRANSACTION = 0, 1


class Versions(NamedTuple):
    """The versions of requests that a producer uses."""

    produce: int
    end_txn: int
    txn_offset_commit: int


OWN_EPOCHS = Versions(produce=12, end_txn=5, txn_offset_commit=5)
ONE_EPOCH = Versions(produce=9, end_txn=3, txn_offset_commit=3)


class RefusedError(AssertionError):
    """The broker answered with an error that no producer is to see here."""


class RawTransactions:
    """The transactions of one transactional id, written into a history."""

    def __init__(
        self, client: RawClient, transactional_id: str, history: History, versions: Versions
    ) -> None:
        self.name, self.versions, self._client, self._history = transactional_id, versions, client, history
        self.frames: list[bytes] = []
        """What the transaction sent so far, and what it kept back."""
        self.committed: dict[Partition, int] = {}
        """The offsets that its transactions committed."""
        self._numbers = self._transactions = 0
        self._transaction = ""
        self._sequences: dict[Partition, int] = {}
        self._added: set[Partition | str] = set()
        self._offsets: dict[Partition, int] = {}
        self._offset_frames: dict[Partition, bytes] = {}
        for kind in (_TRANSACTION, _GROUP):  # the first question creates the internal topic
            coordinator = FindCoordinatorRequest(key_type=kind, coordinator_keys=[transactional_id])
            self._again(coordinator, 4, lambda answer: answer.coordinators[0].error_code)
        begun = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        answer = self._again(begun, 4, lambda answer: answer.error_code)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    @property
    def is_empty(self) -> bool:
        """Whether the transaction has sent nothing yet."""
        return not self._added

    def begin(self) -> None:
        self._transactions += 1
        self._transaction = f"{self.name} {self._transactions}"
        self._added.clear()
        self._offsets.clear()
        self._offset_frames.clear()
        self.frames = []

    def send(self, partition: Partition, count: int) -> None:
        """Send a batch of records."""
        numbers, request = self._batch(partition, count)
        if self.versions is ONE_EPOCH and partition not in self._added:
            self._add(partition)
        self._added.add(partition)
        answer = self._again(
            request,
            self.versions.produce,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self.frames.append(self._frame(request, self.versions.produce))
        base = answer.responses[0].partition_responses[0].base_offset
        self._history.extend([Acked(self.name, number, base + at) for at, number in enumerate(numbers)])

    def keep_back(self, partition: Partition, count: int) -> None:
        """Hand a batch over that does not arrive yet; the transaction is to be aborted."""
        _, request = self._batch(partition, count)
        self.frames.append(self._frame(request, self.versions.produce))

    def commit_offset(self, partition: Partition, offset: int) -> None:
        """Let the commit of the transaction commit an offset of the group that has its name."""
        group = self.name
        if self.versions is ONE_EPOCH and group not in self._added:
            added = AddOffsetsToTxnRequest(group_id=group, **self._identity())
            self._again(added, 3, lambda answer: answer.error_code)
        self._added.add(group)
        self._history.append(CommitSent(group, partition, offset))
        topic = TxnOffsetCommitRequestTopic(
            name=partition[0],
            partitions=[
                TxnOffsetCommitRequestPartition(partition_index=partition[1], committed_offset=offset)
            ],
        )
        request = TxnOffsetCommitRequest(group_id=group, topics=[topic], **self._identity())
        version = self.versions.txn_offset_commit
        self._again(request, version, lambda answer: answer.topics[0].partitions[0].error_code)
        frame = self._frame(request, version)
        if self.versions is ONE_EPOCH and partition in self._offset_frames:
            # Of the offsets of one transaction, that which comes last counts, in Apache Kafka too.
            self.frames.remove(self._offset_frames[partition])
        self._offset_frames[partition] = frame
        self.frames.append(frame)
        self._offsets[partition] = offset

    def end(self, commit: bool) -> bytes:
        """Commit or abort; the frame that did it."""
        self._history.append(TransactionEnding(self._transaction, commit))
        request = EndTxnRequest(committed=commit, **self._identity())
        answer = self._again(request, self.versions.end_txn, lambda answer: answer.error_code)
        if self.versions is OWN_EPOCHS:
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        self._history.append(TransactionEnded(self._transaction, commit))
        if commit:
            self.committed |= self._offsets
            self._history.extend([CommitAcked(self.name, *each) for each in self._offsets.items()])
        frame = self._frame(request, self.versions.end_txn)
        self.frames.append(frame)
        return frame

    def _batch(self, partition: Partition, count: int) -> tuple[Sequence[int], ProduceRequest]:
        numbers = range(self._numbers, self._numbers + count)
        self._numbers += count
        records = [
            Record(-1, 1_700_000_000_000, f"{self.name}:{number}".encode(), b"." * (number % 50), [])
            for number in numbers
        ]
        self._history.extend(
            [
                Sent(
                    self.name,
                    number,
                    partition,
                    checksum_of(record.key or b"", record.value or b""),
                    transaction=self._transaction,
                )
                for number, record in zip(numbers, records, strict=True)
            ]
        )
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + count
        batch = build_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition[1], records=bytes(batch))
        topic = TopicProduceData(name=partition[0], partition_data=[data])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=10_000, topic_data=[topic])
        return numbers, request

    def _add(self, partition: Partition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=partition[0], partitions=[partition[1]])],
        )

        def error(answer: Any) -> int:
            (topic,) = answer.results_by_topic_v3_and_below
            return int(topic.results_by_partition[0].partition_error_code)

        self._again(request, 3, error)
        self.frames.append(self._frame(request, 3))

    def _identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self._producer_id,
            "producer_epoch": self._epoch,
        }

    def _frame(self, request: TopMessage, version: int) -> bytes:
        return encode_request(request, version, CORRELATION_ID, "raw")

    def _again(self, request: TopMessage, version: int, error_of: Any) -> Any:
        """Ask until the answer is not a passing error."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            answer = self._client.ask(request, version, CORRELATION_ID)
            error = ErrorCode(error_of(answer))
            if error is ErrorCode.NONE:
                return answer
            if error not in _AGAIN or time.monotonic() > deadline:
                raise RefusedError(f"{self.name}, {type(request).__name__} v{version}: {error.name}")
            time.sleep(0.005)
