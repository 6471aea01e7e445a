"""A log's own work does not keep the event loop from its clients.

Nor does what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.list_transactions import ListTransactionsRequest
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.producers import ProducerEntry
from tests.handlers.produce_client import batch, create_topic, fetch, produce, values
from tests.loop.turned_clock import START_MS
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient, eventually
from tests.storage.log_harness import TP, Logs, append
from tests.storage.log_harness import batch as record_batch

SEGMENTS = 400
PRODUCERS = 40_000
NEVER = {"log.retention.check.interval.ms": 3_600_000, "log.cleaner.enable": "false"}


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> LoopWatch:
    return LoopWatch(monkeypatch)


def with_log(broker: kafkapy.Broker, tp: TopicPartition, look: Callable[[PartitionLog], object]) -> None:
    """Call `look` with a log, on the loop."""

    async def run(core: BrokerCore) -> None:
        look(core.replicas.partition(*tp).log)

    broker.call(run)


def know_many_producers(log: PartitionLog) -> None:
    """Have the log know many producers, each by its last five batches."""
    producers = {}
    for producer_id in range(PRODUCERS):
        entry = producers[producer_id] = ProducerEntry()
        entry.epoch, entry.last_timestamp = 0, START_MS
        for sequence in range(5):
            entry.add_batch(sequence, 0, 0, START_MS)
    log.producers.restore(producers, log.log_end_offset)


@pytest.fixture
def many_segments(tmp_path: Path) -> Path:
    """A data directory with a log of many segments, stopped in order."""
    logs = Logs(tmp_path, durability="os")
    for index in range(SEGMENTS):
        append(logs.log, record_batch(b"x", timestamp=START_MS + index))
        logs.log.roll()
    logs.stop()
    return tmp_path / "data"


def ask_for_times(
    client: RawClient, topic: str, timestamp: int, partitions: int = 1
) -> list[ListOffsetsPartitionResponse]:
    """ListOffsets for the first partitions of a topic."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(partitions)]
    topics = [ListOffsetsTopic(name=topic, partitions=wanted)]
    response = client.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 11)
    return list(response.topics[0].partitions)


MAX_TIMESTAMP = -3


@pytest.mark.parametrize("timestamp", [START_MS + 99_999, MAX_TIMESTAMP])
def test_a_search_in_a_batch_of_many_records_is_made_elsewhere(
    tmp_path: Path, watch: LoopWatch, timestamp: int
) -> None:
    log = Logs(tmp_path, durability="os")
    append(log.log, record_batch(*[b""] * 100_000, compression=Compression.ZSTD))
    log.stop()
    with watch.broker(tmp_path / "data", NEVER) as broker, RawClient(broker.bootstrap_servers) as client:
        ask_for_times(client, TP.topic, START_MS)  # code is loaded
        with watch.watching():
            (answer,) = ask_for_times(client, TP.topic, timestamp)
        assert (answer.timestamp, answer.offset) == (START_MS + 99_999, 99_999)
        watch.check()


@pytest.mark.parametrize("timestamp", [START_MS + SEGMENTS - 1, MAX_TIMESTAMP])
def test_the_first_search_after_a_restart_reads_many_indexes_elsewhere(
    many_segments: Path, watch: LoopWatch, timestamp: int
) -> None:
    with watch.broker(many_segments, NEVER) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders")
        ask_for_times(client, "orders", START_MS)  # code is loaded
        with watch.watching():
            (answer,) = ask_for_times(client, TP.topic, timestamp)
        assert answer.offset == SEGMENTS - 1
        watch.check()


def test_many_partitions_are_searched_elsewhere(tmp_path: Path, watch: LoopWatch) -> None:
    with watch.broker(tmp_path, NEVER) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", 300)
        produce(client, "orders", *[batch(*[b""] * 100, timestamp=START_MS)] * 300)
        ask_for_times(client, "orders", START_MS)  # code is loaded
        with watch.watching():
            answers = ask_for_times(client, "orders", START_MS - 1, 300)
        assert [answer.offset for answer in answers] == [0] * 300
        watch.check()


def test_what_decompresses_to_more_than_the_limit_is_not_searched(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, record_batch(b"", bytes(3 << 20), b"", compression=Compression.GZIP))
    logs.stop()
    settings = NEVER | {"max.decompressed.message.bytes": 2 << 20}
    with (
        kafkapy.Broker(data_dir=tmp_path / "data", config=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        (answer,) = ask_for_times(client, TP.topic, MAX_TIMESTAMP)
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
        (answer,) = ask_for_times(client, TP.topic, START_MS)
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 0), "the first record is before that"


def test_segments_that_expire_together_go_some_at_a_time(many_segments: Path, watch: LoopWatch) -> None:
    settings = NEVER | {"log.retention.check.interval.ms": 50, "log.segment.delete.delay.ms": 0}
    with watch.broker(many_segments, settings) as broker, RawClient(broker.bootstrap_servers) as client:
        (data,) = fetch(client, TP.topic, 0)
        assert values(data)

        def expire(log: PartitionLog) -> None:
            log.config = LogConfig(retention_ms=1)

        with watch.watching():
            with_log(broker, TP, expire)

            def are_gone() -> bool:
                counts: list[int] = []
                with_log(broker, TP, lambda log: counts.append(len(log.segments)))
                return counts == [1]

            eventually(are_gone, "the expired segments are gone", 60)
        watch.check()


def test_a_roll_does_not_wait_for_the_snapshot_of_many_producers(tmp_path: Path, watch: LoopWatch) -> None:
    with watch.broker(tmp_path, NEVER) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", configs={"segment.bytes": str(1 << 20)})
        tp = TopicPartition("orders", 0)
        produce(client, "orders", batch(bytes(900_000)))
        with_log(broker, tp, know_many_producers)
        with watch.watching():
            produce(client, "orders", batch(bytes(900_000)))
            eventually(lambda: [*tmp_path.glob("orders-0/*.snapshot")] != [], "the snapshot is written", 60)
        watch.check()


def test_a_compaction_of_a_log_with_many_producers_is_planned_elsewhere(
    tmp_path: Path, watch: LoopWatch
) -> None:
    settings = NEVER | {"log.cleaner.enable": "true", "log.cleaner.backoff.ms": 100}
    with watch.broker(tmp_path, settings) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", configs={"segment.bytes": str(1 << 20)})
        tp = TopicPartition("orders", 0)
        for _ in range(3):
            produce(client, "orders", batch(bytes(900_000)))
        with_log(broker, tp, know_many_producers)

        def compact(log: PartitionLog) -> None:
            log.config = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1)

        def is_compacted() -> bool:
            found: list[int | None] = []
            with_log(broker, tp, lambda log: found.append(log.cleaned_offset))
            return found != [None]

        with watch.watching():
            with_log(broker, tp, compact)
            eventually(is_compacted, "the log is compacted", 60)
        watch.check()


SLOW_PATTERN = "a{1,1000}" * 20
OTHER_SLOW_PATTERN = "b{1,1000}" * 20
"""Each takes half a second to compile, when it is not in the library's cache."""


@pytest.fixture
def watched_client(tmp_path: Path, watch: LoopWatch) -> Iterator[RawClient]:
    """A client of a watched broker whose coordinators are there."""
    with watch.broker(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        eventually(lambda: has_coordinator(client, 0), "a coordinator of groups")
        eventually(lambda: has_coordinator(client, 1), "a coordinator of transactions")
        yield client


def has_coordinator(client: RawClient, key_type: int = 0) -> bool:
    answer = client.ask(FindCoordinatorRequest(key="g", key_type=key_type), 2)
    return bool(answer.error_code == ErrorCode.NONE)


def test_a_subscription_by_pattern_is_compiled_elsewhere(watched_client: RawClient, watch: LoopWatch) -> None:
    with watch.watching():
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="a",
            rebalance_timeout_ms=1000,
            subscribed_topic_regex=SLOW_PATTERN,
            topic_partitions=[],
        )
        assert watched_client.ask(request, 1).error_code == ErrorCode.NONE
        has_coordinator(watched_client)  # the callback before has ended
    watch.check()


def test_transactions_are_listed_by_a_pattern_that_is_compiled_elsewhere(
    watched_client: RawClient, watch: LoopWatch
) -> None:
    with watch.watching():
        request = ListTransactionsRequest(transactional_id_pattern=OTHER_SLOW_PATTERN)
        assert watched_client.ask(request, 2).error_code == ErrorCode.NONE
        has_coordinator(watched_client)  # the callback before has ended
    watch.check()
