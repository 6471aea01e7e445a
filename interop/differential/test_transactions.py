"""Transactions: requests of producers and admins in every version, good and bad ones."""

from __future__ import annotations

from typing import Any, Final

import pytest

from interop.differential.batches import batch
from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.data import fetch, produce
from interop.differential.groups import find_coordinator
from interop.support.waiting import wait_until
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkapy.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkapy.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_transactions import ListTransactionsRequest
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.protocol.types import random_uuid

pytestmark = pytest.mark.jvm

TRANSACTION: Final = 1
INIT, ADD, END = 5, 3, 5
FIRST_OF_VERSION_2: Final = 5
"""The first version of EndTxn and TxnOffsetCommit whose clients have transaction version 2."""
PRODUCE_V2: Final = 12
FIRST_BATCHED: Final = 4
FIRST_COMMIT_WITH_IDS: Final = 6
UNSETTLED: Final = (14, 15, 16, 51)
"""Errors with which a client asks again: the coordinator is not ready, or a transaction is ending."""

FROM_THE_COORDINATOR: Final = (
    Differs(
        "*",
        "*log_start_offset",
        "kafkapy always says where the log begins; Apache Kafka not if the coordinator does",
    ),
)


class Producer:
    """A transactional producer made of raw requests."""

    def __init__(self, broker: Broker, name: str, *, begins: bool = True) -> None:
        self.broker, self.name = broker, broker.name_of(name)
        self.id, self.epoch = -1, -1
        if begins:
            self.begin()
            self.begin()  # so that there is an epoch before its own

    def begin(self, **fields: Any) -> None:
        """Get the next epoch, however long a transaction takes to end, without noting the answer."""

        def settled() -> Any:
            answer = self.broker.main.quietly(self._init_request(**fields), INIT)
            return None if answer.error_code in UNSETTLED else answer

        answer = wait_until(settled)
        assert answer.error_code == 0, answer
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def _init_request(self, **fields: Any) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            **{"transactional_id": self.name, "transaction_timeout_ms": 60_000, **fields}
        )

    def init(self, label: str, version: int = INIT, **fields: Any) -> Any:
        return self.broker.ask(label, self._init_request(**fields), version)

    def _named(self, fields: dict[str, Any]) -> dict[str, Any]:
        own = {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}
        return {**own, **fields}

    def add(
        self,
        label: str,
        topic: str,
        *partitions: int,
        version: int = ADD,
        verify: bool = False,
        **fields: Any,
    ) -> None:
        named = self._named(fields)
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))]
        if version >= FIRST_BATCHED:
            transaction = AddPartitionsToTxnTransaction(topics=topics, verify_only=verify, **named)
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        else:
            old = {f"v3_and_below_{name}": value for name, value in named.items()}
            request = AddPartitionsToTxnRequest(v3_and_below_topics=topics, **old)
        self.broker.ask(label, request, version)

    def add_offsets(self, label: str, group: str, version: int, **fields: Any) -> None:
        self.broker.ask(label, AddOffsetsToTxnRequest(group_id=group, **self._named(fields)), version)

    def commit_offset(
        self,
        label: str,
        group: str,
        topic: str,
        version: int,
        *,
        partition: int = 0,
        topic_id: bytes | None = None,
        metadata: str | None = "m",
        **fields: Any,
    ) -> None:
        offset = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=5, committed_metadata=metadata
        )
        with_ids = version >= FIRST_COMMIT_WITH_IDS
        where = {"topic_id": topic_id or self.broker.topic_id(topic)} if with_ids else {"name": topic}
        request = TxnOffsetCommitRequest(
            group_id=group,
            topics=[TxnOffsetCommitRequestTopic(**where, partitions=[offset])],
            **self._named(fields),
        )
        self.broker.ask(label, request, version)

    def produce(
        self, label: str, topic: str, sequence: int, *, version: int = PRODUCE_V2, **fields: Any
    ) -> None:
        named = self._named(fields)
        records = batch(
            1,
            transactional=True,
            producer_id=named["producer_id"],
            producer_epoch=named["producer_epoch"],
            base_sequence=sequence,
        )
        transactional_id = named["transactional_id"]
        produce(self.broker, label, topic, records, version=version, transactional_id=transactional_id)

    def end(self, label: str, *, commit: bool = True, version: int = END, **fields: Any) -> Any:
        return self.broker.ask(label, EndTxnRequest(committed=commit, **self._named(fields)), version)

    def rest(self, label: str) -> None:
        """Wait until no end is being written, and note the state."""
        wait_until(lambda: not self._state().startswith("Prepare"))
        self.broker.ask(label, self._describe_request(), 0)

    def rest_as(self, label: str, state: str) -> None:
        """Wait until the transactional id has this state, and note it."""
        wait_until(lambda: self._state() == state)
        self.broker.ask(label, self._describe_request(), 0)

    def _state(self) -> str:
        (state,) = self.broker.main.quietly(self._describe_request(), 0).transaction_states
        return str(state.transaction_state)

    def _describe_request(self) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=[self.name])


def find_transaction_coordinator(broker: Broker) -> None:
    """Wait until every partition of the coordinator's topic is loaded."""
    find_coordinator(broker)
    find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["any"])

    def ready() -> bool:
        (found,) = broker.main.quietly(find, 4).coordinators
        return (found.error_code, broker.main.quietly(ListTransactionsRequest(), 0).error_code) == (0, 0)

    wait_until(ready)


def test_init_producer_id(pair: Pair) -> None:
    def inits(broker: Broker) -> None:
        find_transaction_coordinator(broker)
        topic = broker.topic()
        for version in broker.versions(InitProducerIdRequest):
            producer, label = Producer(broker, f"v{version}"), f"v{version}"
            producer.init(f"{label} next epoch", version)
            for timeout in (0, -1, 900_000, 900_001):
                producer.init(f"{label} timeout {timeout}", version, transaction_timeout_ms=timeout)
            if version >= 3:
                producer.begin()
                own = {"producer_id": producer.id, "producer_epoch": producer.epoch}
                producer.init(f"{label} continues", version, **own)
                producer.init(f"{label} continues again", version, **own)
                producer.init(f"{label} of two epochs before", version, **{**own, "producer_epoch": 0})
                producer.init(f"{label} of a future epoch", version, **{**own, "producer_epoch": 900})
                producer.init(f"{label} of another id", version, producer_id=10**9, producer_epoch=0)
                producer.init(f"{label} id alone", version, producer_id=producer.id)
                producer.init(f"{label} epoch alone", version, producer_epoch=producer.epoch)
                nobody = Producer(broker, f"{label}-nobody", begins=False)
                nobody.init(f"{label} nobody continues", version, **own)
            producer.begin()
            producer.add(f"{label} add", topic)
            producer.init(f"{label} while one is open", version)
            producer.rest(f"{label} the open one")
            producer.init(f"{label} after it", version)

    pair.compare(inits)


@pytest.mark.parametrize("version", [0, 2])
def test_timeouts(pair: Pair, version: int) -> None:
    def timeouts(broker: Broker) -> None:
        find_transaction_coordinator(broker)
        topic, producer = broker.topic(), Producer(broker, "x")
        producer.begin(transaction_timeout_ms=1)
        if version == 2:
            producer.produce("in time", topic, 0)
        else:
            producer.add("add", topic)
        producer.rest_as("aborted", "CompleteAbort")
        producer.produce("late record", topic, 1)
        producer.end("late end", version=5 if version == 2 else 4)
        own = {"producer_id": producer.id, "producer_epoch": producer.epoch}
        producer.init("continues", **own)
        producer.init("begins")

    pair.compare(timeouts, *FROM_THE_COORDINATOR)


def test_partitions(pair: Pair) -> None:
    def partitions(broker: Broker) -> None:
        find_transaction_coordinator(broker)
        topic = broker.topic(partitions=2)
        for version in broker.versions(AddPartitionsToTxnRequest):
            label = f"v{version}"
            producer = Producer(broker, label)

            def add(
                what: str, *, topic: str = topic, partitions: tuple[int, ...] = (0,), **fields: Any
            ) -> None:
                producer.add(f"{label} {what}", topic, *partitions, version=version, **fields)  # noqa: B023

            if version >= FIRST_BATCHED:
                add("verified before", verify=True)
            add("one")
            add("one again")
            if version >= FIRST_BATCHED:
                add("verified", verify=True)
                add("another verified", partitions=(1,), verify=True)
                add("both verified", partitions=(0, 1), verify=True)
                add("verified of an old epoch", verify=True, producer_epoch=producer.epoch - 1)
                add("verified of nobody", verify=True, transactional_id="nobody")
            add("no such partition", partitions=(1, 7))
            add("no such topic", topic="nobody-made-this")
            add("old epoch", producer_epoch=producer.epoch - 1)
            add("future epoch", producer_epoch=producer.epoch + 1)
            add("other producer id", producer_id=10**9)
            add("no transactional id", transactional_id="")
            add("nobody", transactional_id="nobody")
            producer.rest(f"{label} described")
            producer.end(f"{label} end", version=4)
            producer.rest(f"{label} ended")
            add("in the next")
            producer.rest(f"{label} the next")
            producer.end(f"{label} abort", commit=False, version=4)
            producer.rest(f"{label} aborted")

    pair.compare(partitions)


def test_ends(pair: Pair) -> None:
    def ends(broker: Broker) -> None:
        find_transaction_coordinator(broker)
        topic = broker.topic()
        for version in broker.versions(EndTxnRequest):
            for commit in (True, False):
                label = f"v{version} {'commit' if commit else 'abort'}"
                producer = Producer(broker, label.replace(" ", "-"))
                producer.end(f"{label} of nothing", commit=commit, version=version)
                producer.rest(f"{label} of nothing, described")
                producer.begin()
                producer.add(f"{label} add", topic)
                wrong: dict[str, dict[str, Any]] = {
                    "old epoch": {"producer_epoch": producer.epoch - 1},
                    "future epoch": {"producer_epoch": producer.epoch + 1},
                    "other producer id": {"producer_id": 10**9},
                    "no transactional id": {"transactional_id": ""},
                    "nobody": {"transactional_id": "nobody"},
                }
                for what, fields in wrong.items():
                    producer.end(f"{label} {what}", commit=commit, version=version, **fields)
                producer.end(label, commit=commit, version=version)
                producer.rest(f"{label} described")
                producer.end(f"{label} again", commit=commit, version=version)
                producer.end(f"{label} otherwise", commit=not commit, version=version)
                producer.rest(f"{label} described again")

    pair.compare(ends)


def test_epochs_of_version_2(pair: Pair) -> None:
    def epochs(broker: Broker) -> None:
        find_transaction_coordinator(broker)
        topic, producer = broker.topic(), Producer(broker, "x")
        for number, commit in enumerate((True, False, True)):
            late = producer.epoch
            producer.produce(f"{number} first", topic, 0)
            producer.produce(f"{number} second", topic, 1)
            producer.rest(f"{number} open")
            answer = producer.end(f"{number} end", commit=commit)
            producer.rest(f"{number} ended")
            producer.produce(f"{number} late record", topic, 2, producer_epoch=late)
            producer.epoch = answer.producer_epoch
            producer.end(f"{number} late end", commit=commit, producer_epoch=late)
            producer.rest(f"{number} after what was late")
        fetch(broker, "all", topic, 0)
        fetch(broker, "committed", topic, 0, isolation_level=1)

    pair.compare(epochs, *FROM_THE_COORDINATOR)


def test_records(pair: Pair) -> None:
    def records(broker: Broker) -> None:
        find_transaction_coordinator(broker)
        for version in (11, 12, 13):
            label = f"v{version}"
            topic, other = broker.topic(), broker.topic()
            producer = Producer(broker, label)
            producer.produce(f"{label} unannounced", topic, 0, version=version)
            producer.add(f"{label} add", topic)
            producer.produce(f"{label} first", topic, 0 if version == 11 else 1, version=version)
            producer.produce(f"{label} gap", topic, 9, version=version)
            producer.produce(f"{label} elsewhere", other, 0, version=version)
            old = {"producer_epoch": producer.epoch - 1}
            producer.produce(f"{label} old epoch", topic, 0, version=version, **old)
            producer.produce(f"{label} other id", topic, 0, version=version, producer_id=10**9)
            producer.produce(f"{label} nobody", topic, 2, version=version, transactional_id="nobody")
            producer.produce(f"{label} null id", topic, 3, version=version, transactional_id=None)
            # This comes last: Apache Kafka refuses the sequence numbers of the true epoch after it.
            producer.produce(f"{label} future epoch", topic, 0, version=version, producer_epoch=77)
            fetch(broker, f"{label} committed before", topic, 0, isolation_level=1)
            producer.end(f"{label} end", commit=False, version=4 if version == 11 else 5)
            producer.rest(f"{label} ended")
            fetch(broker, f"{label} all", topic, 0)
            fetch(broker, f"{label} committed", topic, 0, isolation_level=1)

    pair.compare(records, *FROM_THE_COORDINATOR)


def test_offsets(pair: Pair) -> None:
    def offsets(broker: Broker) -> None:
        find_transaction_coordinator(broker)
        topic, group = broker.topic(), broker.name_of("group")
        for version in broker.versions(AddOffsetsToTxnRequest):
            label = f"add v{version}"
            producer = Producer(broker, f"add-{version}")
            producer.add_offsets(label, group, version)
            producer.add_offsets(f"{label} again", group, version)
            producer.add_offsets(f"{label} empty group", "", version)
            old = {"producer_epoch": producer.epoch - 1}
            producer.add_offsets(f"{label} old epoch", group, version, **old)
            producer.add_offsets(f"{label} nobody", group, version, transactional_id="nobody")
            producer.add_offsets(f"{label} no id", group, version, transactional_id="")
            producer.end(f"{label} end", version=4)
            producer.rest(f"{label} ended")
        for version in broker.versions(TxnOffsetCommitRequest):
            label = f"commit v{version}"
            producer = Producer(broker, f"commit-{version}")
            own = broker.name_of(label.replace(" ", "-"))

            def commit(what: str, *, group: str = own, topic: str = topic, **fields: Any) -> None:
                producer.commit_offset(f"{label} {what}", group, topic, version, **fields)  # noqa: B023

            commit("unannounced")
            producer.add_offsets(f"{label} add", own, 3)
            commit("good")
            commit("no such partition", partition=7)
            commit("no such topic", topic="nobody-made-this", topic_id=random_uuid())
            commit("too much metadata", metadata="m" * 4097)
            commit("null metadata", metadata=None)
            commit("empty group", group="")
            commit("old epoch", producer_epoch=producer.epoch - 1)
            commit("other producer id", producer_id=10**9)
            commit("nobody", transactional_id="nobody")
            if version >= 3:
                commit("unknown member", member_id="nobody", generation_id_or_member_epoch=3)
                commit("generation alone", generation_id_or_member_epoch=3)
            producer.end(f"{label} end", version=5 if version >= FIRST_OF_VERSION_2 else 4)
            producer.rest(f"{label} ended")

    pair.compare(offsets)


def test_administration(pair: Pair) -> None:
    def administration(broker: Broker) -> None:
        find_transaction_coordinator(broker)
        topic = broker.topic(partitions=2)
        idle, open_one = Producer(broker, "idle"), Producer(broker, "open")
        open_one.produce("open first", topic, 0)
        describe = DescribeTransactionsRequest(transactional_ids=[idle.name, open_one.name, "nobody", ""])
        broker.ask("describe", describe, 0)
        pattern = f"{broker.prefix}-.*"
        for version in broker.versions(ListTransactionsRequest):
            filters: dict[str, dict[str, Any]] = {
                "ongoing": {"state_filters": ["Ongoing"]},
                "unknown state": {"state_filters": ["ongoing", "Dead"]},
                "by producer": {"producer_id_filters": [open_one.id, 10**9], "state_filters": ["Empty"]},
            }
            if version >= 1:
                filters["long"] = {"duration_filter": 3_600_000, "state_filters": ["Ongoing"]}
                filters["long and empty"] = {"duration_filter": 3_600_000, "producer_id_filters": [idle.id]}
                filters["negative"] = {"duration_filter": -5, "producer_id_filters": [idle.id]}
            if version >= 2:
                filters["pattern"] = {"transactional_id_pattern": pattern, "state_filters": ["Ongoing"]}
                filters["part of a name"] = {"transactional_id_pattern": broker.prefix}
                filters["broken pattern"] = {"transactional_id_pattern": "("}
                filters["look-ahead"] = {"transactional_id_pattern": "(?=x)"}
            for what, fields in filters.items():
                broker.ask(f"list v{version} {what}", ListTransactionsRequest(**fields), version)

        def producers(label: str) -> None:
            topics = [
                TopicRequest(name=topic, partition_indexes=[0, 1, 7]),
                TopicRequest(name="nobody-made-this", partition_indexes=[0]),
                TopicRequest(name="no good!", partition_indexes=[0]),
            ]
            broker.ask(label, DescribeProducersRequest(topics=topics), 0)

        def mark(label: str, *, version: int, partition: int = 0) -> None:
            marker = WritableTxnMarker(
                producer_id=open_one.id,
                producer_epoch=open_one.epoch,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            )
            broker.ask(label, WriteTxnMarkersRequest(markers=[marker]), version)

        producers("producers while open")
        for version in broker.versions(WriteTxnMarkersRequest):
            mark(f"v{version} no such partition", version=version, partition=7)
            mark(f"v{version} abort", version=version)
        open_one.end("end", commit=False)
        open_one.rest("at rest")

    pair.compare(
        administration,
        Differs(
            "v* abort",
            "markers[0].topics[0].partitions[0].error_code",
            "a broker alone ends by markers of clients only what no coordinator has",
        ),
        Differs(
            "producers while open",
            "*last_timestamp",
            "kafkapy does not let a producer of old records expire early, so it takes the time of the append",
        ),
    )
