"""Fetches and searches in a segment with damaged indexes wait, and nobody else does."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.fetch import FetchResponse, PartitionData
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.types import ApiKey
from kafkapy.storage.disk.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kafkapy.storage.log.index_repair import IndexRepair
from kafkapy.storage.log.log_config import LogConfig
from tests.handlers.produce_client import (
    FETCH_VERSION,
    create_topic,
    fetch,
    fetch_request,
    produce,
    stored,
    values,
)
from tests.handlers.produce_client import batch as produced
from tests.loop.turned_clock import START_MS
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient, eventually
from tests.storage.log_harness import TP, Logs, append, batch, headers_in

BATCHES = 40_000
MIDDLE = BATCHES // 2
CONFIG = LogConfig(index_interval_bytes=300, segment_bytes=1 << 30)
SETTINGS = {
    "log.index.interval.bytes": 300,
    "log.retention.check.interval.ms": 3_600_000,
    "log.cleaner.enable": "false",
}
FIRST = "00000000000000000000"
READ_COMMITTED = 1
OLD_VERSION = 3
"""The last version of Fetch with message sets."""


def reverse(path: Path) -> None:
    data, size = path.read_bytes(), 8 if path.suffix == INDEX_SUFFIX else 12
    path.write_bytes(b"".join(data[at : at + size] for at in reversed(range(0, len(data), size))))


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def mislead(path: Path) -> None:
    """Have each entry of an offset index lead into a batch."""
    data = bytearray(path.read_bytes())
    for at in range(7, len(data), 8):
        data[at] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a closed segment of many batches and an empty one."""
    logs = Logs(tmp_path_factory.mktemp("original"), durability="os", config=CONFIG)
    small = bytes(batch(b"x"))
    for first in range(0, BATCHES, 2000):
        many = bytearray(small) * 2000
        for index in range(2000):
            at, offset = index * len(small), first + index
            many[at : at + 8] = offset.to_bytes(8, "big")
            many[at + 12 : at + 16] = bytes(4)
        logs.log.append_as_follower(memoryview(many), now_ms=START_MS)
    logs.log.advance_high_watermark(BATCHES)
    logs.log.roll()
    append(logs.log, batch(b"last", timestamp=START_MS + 1))
    logs.stop()
    return logs.path.parent


@pytest.fixture
def data_dir(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> LoopWatch:
    return LoopWatch(monkeypatch)


def index_of(data_dir: Path, suffix: str = INDEX_SUFFIX) -> Path:
    return data_dir / str(TP) / (FIRST + suffix)


@pytest.mark.parametrize("isolation_level", [0, READ_COMMITTED])
@pytest.mark.parametrize("damage", [reverse, shorten, mislead])
def test_a_fetch_in_a_segment_with_a_damaged_index_does_not_hold_the_event_loop(
    data_dir: Path, watch: LoopWatch, damage: Callable[[Path], None], isolation_level: int
) -> None:
    index = index_of(data_dir)
    right = index.read_bytes()
    damage(index)
    with watch.broker(data_dir, SETTINGS) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "others")
        produce(client, "others", produced(b"value"))
        fetch(client, "others", 0)  # code is loaded
        with watch.watching():
            (data,) = fetch(client, TP.topic, MIDDLE, isolation_level=isolation_level)
        assert data.error_code == ErrorCode.NONE
        assert headers_in(stored(data))[0].base_offset == MIDDLE
        watch.check()
    assert index.read_bytes() == right


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_a_search_by_time_with_a_damaged_index_does_not_hold_the_event_loop(
    data_dir: Path, watch: LoopWatch, suffix: str
) -> None:
    shorten(index_of(data_dir, suffix))
    partition = ListOffsetsPartition(partition_index=0, timestamp=START_MS)
    topics = [ListOffsetsTopic(name=TP.topic, partitions=[partition])]
    with watch.broker(data_dir, SETTINGS) as broker, RawClient(broker.bootstrap_servers) as client:
        for _ in range(2):
            with watch.watching():
                answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
            assert answer.topics[0].partitions[0].offset == 0
        watch.check()


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_retention_of_a_segment_with_a_damaged_index_does_not_hold_the_event_loop(
    data_dir: Path, watch: LoopWatch, suffix: str
) -> None:
    shorten(index_of(data_dir, suffix))
    settings = SETTINGS | {"log.retention.check.interval.ms": 50}
    with watch.broker(data_dir, settings) as broker:

        async def start_offset(core: BrokerCore) -> int:
            return core.replicas.partition(*TP).log.log_start_offset

        async def expire(core: BrokerCore) -> None:
            core.replicas.partition(*TP).log.config = LogConfig(retention_ms=1)

        with watch.watching():
            broker.call(expire)
            eventually(lambda: broker.call(start_offset) == BATCHES + 1, "the records have expired", 60)
        watch.check()


class HeldRepairs:
    """Keeps repairs from going on, in their thread, until a test lets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self._may_go_on = threading.Event()
        run = IndexRepair.run

        def held(repair: IndexRepair) -> None:
            self.begun += 1
            assert self._may_go_on.wait(30)
            run(repair)

        monkeypatch.setattr(IndexRepair, "run", held)

    def go_on(self) -> None:
        self._may_go_on.set()


@pytest.fixture
def repairs(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldRepairs]:
    held = HeldRepairs(monkeypatch)
    yield held
    held.go_on()


@pytest.fixture
def bootstrap(data_dir: Path, repairs: HeldRepairs) -> Iterator[str]:
    """A broker with a topic whose first segment has a damaged index, and with another topic."""
    reverse(index_of(data_dir))
    with kafkapy.Broker(data_dir=data_dir, config=SETTINGS) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            create_topic(client, "others")
            produce(client, "others", produced(b"value"))
        yield broker.bootstrap_servers
        repairs.go_on()


def send_fetch(client: RawClient, offset: int) -> None:
    client.send(encode_request(fetch_request(TP.topic, offset), FETCH_VERSION, 7, "raw"))


def receive_fetch(client: RawClient) -> PartitionData:
    _, response = decode_response(ApiKey.FETCH, FETCH_VERSION, client.receive_frame())
    assert isinstance(response, FetchResponse)
    return response.responses[0].partitions[0]


def test_readers_of_a_segment_wait_for_one_rebuild_and_others_do_not_wait(
    bootstrap: str, repairs: HeldRepairs
) -> None:
    with RawClient(bootstrap) as one, RawClient(bootstrap) as two, RawClient(bootstrap) as other:
        send_fetch(one, MIDDLE)
        send_fetch(two, MIDDLE + 9)
        eventually(lambda: repairs.begun == 1, "the rebuild begins")
        for number in range(3):
            produce(other, "others", produced(b"more"))
            assert len(headers_in(stored(fetch(other, "others", 0)[0]))) == number + 2
            produce(other, TP.topic, produced(b"appended"))
        assert fetch(other, TP.topic, BATCHES)[0].error_code == ErrorCode.NONE, "another segment"
        repairs.go_on()
        assert headers_in(stored(receive_fetch(one)))[0].base_offset == MIDDLE
        assert headers_in(stored(receive_fetch(two)))[0].base_offset == MIDDLE + 9
    assert repairs.begun == 1


def test_a_topic_can_be_deleted_and_created_again_during_a_rebuild(
    bootstrap: str, repairs: HeldRepairs, data_dir: Path
) -> None:
    with RawClient(bootstrap) as reader, RawClient(bootstrap) as client:
        send_fetch(reader, MIDDLE)
        eventually(lambda: repairs.begun == 1, "the rebuild begins")
        client.ask(DeleteTopicsRequest(topic_names=[TP.topic], timeout_ms=10_000), 5)
        create_topic(client, TP.topic)
        produce(client, TP.topic, produced(b"new"))
        repairs.go_on()
        assert receive_fetch(reader).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert values(fetch(client, TP.topic, 0)[0]) == [b"new"]
    assert list(data_dir.glob("**/*.tmp")) == []


def test_a_broker_that_stops_during_a_rebuild_leaves_nothing_of_it(
    data_dir: Path, repairs: HeldRepairs
) -> None:
    index = index_of(data_dir)
    reverse(index)
    size = index.stat().st_size
    broker = kafkapy.Broker(data_dir=data_dir, config=SETTINGS)
    broker.start()
    with RawClient(broker.bootstrap_servers) as client:
        send_fetch(client, MIDDLE)
        eventually(lambda: repairs.begun == 1, "the rebuild begins")
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        assert client.is_closed()
        repairs.go_on()
        stopping.join()
    assert list(data_dir.glob("**/*.tmp")) == []
    assert index.stat().st_size == size


def test_an_old_client_waits_for_the_rebuild_too(bootstrap: str, repairs: HeldRepairs) -> None:
    repairs.go_on()
    with RawClient(bootstrap) as client:
        response = client.ask(fetch_request(TP.topic, MIDDLE), OLD_VERSION)
        assert response.responses[0].partitions[0].records
    assert repairs.begun == 1
