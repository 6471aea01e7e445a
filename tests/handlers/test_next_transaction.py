"""A producer begins its next transaction early.

The markers of the one before are still being written.

EndTxn is answered when the end is stored. The first batch of the next transaction may then reach a partition
before the marker does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.coordination.topic_log import Done
from kafkapy.handlers import Endpoint
from kafkapy.handlers.dispatch import Dispatcher
from kafkapy.network.requester import Requester
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import RequestHeader, decode_response, encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
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
from kafkapy.protocol.types import ApiKey, TopicPartition
from kafkapy.transactions.state_machine import Producer
from tests.network.raw_client import RawClient, eventually

GROUP, TRANSACTION = 0, 1
PRODUCE_VERSION, END_VERSION, COMMIT_VERSION = 12, 5, 5


class LateMarkers(Dispatcher):
    """Dispatches markers once they are let pass, and all else at once."""

    def __init__(self, core: BrokerCore, may_write: asyncio.Event) -> None:
        super().__init__(core)
        self._may_write = may_write

    def call(self, connection: Requester, header: RequestHeader, endpoint: Endpoint, request: Any) -> Any:
        if header.api_key != ApiKey.WRITE_TXN_MARKERS:
            return super().call(connection, header, endpoint, request)

        async def write_later() -> Any:
            await self._may_write.wait()
            return await super(LateMarkers, self).call(connection, header, endpoint, request)

        return write_later()


class Stage:
    """A broker whose markers wait until they are let pass."""

    def __init__(self, broker: kafkapy.Broker, client: RawClient) -> None:
        self.broker, self.client = broker, client
        self.asked = 0
        """How often the coordinator was asked while the transaction before had not ended."""
        self._may_write = asyncio.Event()
        broker.call(self._prepare)
        for kind in (GROUP, TRANSACTION):  # the first question creates the internal topic
            client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]), 4)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[topic]), 5)
        answer = client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def _prepare(self, core: BrokerCore) -> None:
        await core.make_coordinators()
        add_partitions = core.transactions.add_partitions

        def add(
            transactional_id: str,
            producer: Producer,
            partitions: Collection[TopicPartition],
            version: int,
            done: Done,
        ) -> None:
            def count(error: ErrorCode) -> None:
                self.asked += error is ErrorCode.CONCURRENT_TRANSACTIONS
                done(error)

            add_partitions(transactional_id, producer, partitions, version, count)

        core.loopback.dispatcher = LateMarkers(core, self._may_write)
        core.transactions.add_partitions = add  # type: ignore[method-assign]

    def let_markers_pass(self) -> None:
        async def let(_core: BrokerCore) -> None:
            self._may_write.set()

        self.broker.call(let)

    def commit(self) -> None:
        """End the transaction; its markers wait."""
        request = EndTxnRequest(
            transactional_id="x", producer_id=self.producer_id, producer_epoch=self.epoch, committed=True
        )
        answer = self.client.ask(request, END_VERSION)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, self.epoch + 1)
        self.epoch += 1

    def send_early(self, request: TopMessage, version: int) -> TopMessage:
        """Send a request of the next transaction, and let markers pass when it waits for them."""
        self.client.send(encode_request(request, version, 7, "raw"))
        eventually(lambda: self.asked > 0, "the coordinator is asked")
        self.let_markers_pass()
        assert request.KEY is not None
        _, answer = decode_response(request.KEY, version, self.client.receive_frame())
        return answer

    def batch(self) -> ProduceRequest:
        batch = build_batch(
            [Record(-1, 1_700_000_000_000, None, b"v", [])],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        data = PartitionProduceData(index=0, records=bytes(batch))
        topic = TopicProduceData(name="t", partition_data=[data])
        return ProduceRequest(transactional_id="x", acks=-1, timeout_ms=10_000, topic_data=[topic])

    def offset(self) -> TxnOffsetCommitRequest:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        return TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="x",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )


@pytest.fixture
def stage() -> Iterator[Stage]:
    # A request of the next transaction waits for the markers of the one before as long as it must here.
    patience = {"add.partitions.to.txn.retry.backoff.max.ms": 30_000}
    with kafkapy.Broker(config=patience) as broker, RawClient(broker.bootstrap_servers) as client:
        yield Stage(broker, client)


def test_a_batch_that_comes_before_the_marker_of_the_transaction_before_is_written_after_it(
    stage: Stage,
) -> None:
    first = stage.client.ask(stage.batch(), PRODUCE_VERSION).responses[0].partition_responses[0]
    assert (first.error_code, first.base_offset) == (ErrorCode.NONE, 0)
    stage.commit()
    answer = stage.send_early(stage.batch(), PRODUCE_VERSION)
    second = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
    assert (second.error_code, second.base_offset) == (ErrorCode.NONE, 2)


def test_offsets_that_come_before_the_marker_of_the_transaction_before_are_written_after_it(
    stage: Stage,
) -> None:
    first = stage.client.ask(stage.offset(), COMMIT_VERSION).topics[0].partitions[0]
    assert first.error_code == ErrorCode.NONE
    stage.commit()
    answer = stage.send_early(stage.offset(), COMMIT_VERSION)
    second = answer.topics[0].partitions[0]  # type: ignore[attr-defined]
    assert second.error_code == ErrorCode.NONE
