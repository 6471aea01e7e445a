"""A broker that lacks descriptors keeps serving, and recovers without a restart.

It takes no more connections than it has room for, and what met the limit succeeds when it is tried again.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from tests.handlers.group_client import commit, committed, fetch_offsets, find_coordinator, join, sync
from tests.handlers.produce_client import batch, create_topic, fetch, produce, stored, values
from tests.network.raw_client import RawClient, api_versions, correlation_ids, eventually
from tests.servers.kafkapy_process import KafkapyProcess

NONE, STORAGE_ERROR, TIMED_OUT = (
    ErrorCode.NONE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
)
HEALED = 20.0
"""Seconds: far more than the longest pause between two tries."""


EIGHT_PARTITIONS = {"offsets.topic.num.partitions": "8"}


def limited(soft: int, hard: int | None = None) -> tuple[str, ...]:
    """The command that starts another command with this limit of open files."""
    return ("sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard or soft} && exec "$@"', "sh")


@contextlib.contextmanager
def asking(broker: KafkapyProcess) -> Iterator[RawClient]:
    """A client that has sent each request once, so that the broker has loaded the code for it."""
    with RawClient(broker.bootstrap_servers) as client:
        fetch(client, "nothing", 0)
        produce(client, "nothing", batch(b"x"))
        commit(client, "nobody", {("t", 0): 1})
        client.ask(ListGroupsRequest(), 4)
        client.ask(HeartbeatRequest(group_id="nobody", generation_id=1, member_id="x"), 4)
        client.ask(DeleteTopicsRequest(topic_names=["nothing"], timeout_ms=1), 5)
        client.ask(FindCoordinatorRequest(coordinator_keys=[""], key_type=9), 4)
        client.ask(CreateTopicsRequest(topics=[], timeout_ms=1), 7)
        yield client


@contextlib.contextmanager
def starving(broker: KafkapyProcess) -> Iterator[None]:
    """Let the broker open no file at all."""
    pid = broker.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def codes(client: RawClient, topic: str, *batches: bytes | None) -> list[int]:
    """Produce, and the error codes of the partitions."""
    return [answer.error_code for answer in produce(client, topic, *batches)]


def starved_codes(client: RawClient, topic: str, *batches: bytes | None) -> set[int]:
    """The same of a broker without descriptors.

    What is in the log already may be committed later.
    """
    return {answer.error_code for answer in produce(client, topic, *batches, timeout_ms=300)} - {TIMED_OUT}


def connects(broker: KafkapyProcess) -> bool:
    with RawClient(broker.bootstrap_servers) as client:
        return is_served(client)


def is_served(client: RawClient) -> bool:
    try:
        client.send(api_versions())
        return correlation_ids(client, 1) == [7]
    except (ConnectionError, BrokenPipeError):
        return False


def test_a_broker_takes_as_many_descriptors_as_it_may(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path, prefix=limited(256, 5000)) as broker:
        assert resource.prlimit(broker.pid, resource.RLIMIT_NOFILE) == (5000, 5000)
        assert "2,372 connections" in broker.log_path.read_text()


def test_idle_connections_leave_the_broker_its_descriptors(tmp_path: Path) -> None:
    with (
        KafkapyProcess(tmp_path, properties=EIGHT_PARTITIONS, prefix=limited(400)) as broker,
        RawClient(broker.bootstrap_servers) as client,
        contextlib.ExitStack() as stack,
    ):
        create_topic(client, "events", 20)
        clients = [stack.enter_context(RawClient(broker.bootstrap_servers)) for _ in range(400)]
        served = [each for each in clients if is_served(each)]
        assert len(served) == 149, "and the first one"
        assert codes(client, "events", *[batch(b"x")] * 20) == [NONE] * 20
        create_topic(client, "more", 40)
        assert codes(client, "more", *[batch(b"x")] * 40) == [NONE] * 40
        find_coordinator(client, "g")
        for number in range(8):
            assert commit(client, f"g{number}", {("more", 0): 5}) == {("more", 0): NONE}
        member = join(client, "g")
        assert sync(client, "g", member).error_code == NONE
        assert [values(data) for data in fetch(client, "more", *[0] * 30)] == [[b"x"]] * 30
        assert "leaves no room for more than 150 connections" in broker.log_path.read_text()
        for each in clients:
            each.close()
        eventually(lambda: connects(broker), "there is room")
        assert broker.stop() == 0


def test_clients_that_do_not_read_their_answers_do_not_keep_the_files_of_all_logs(tmp_path: Path) -> None:
    with (
        KafkapyProcess(
            tmp_path, properties={"socket.send.buffer.bytes": "16384"}, prefix=limited(400)
        ) as broker,
        RawClient(broker.bootstrap_servers) as client,
        contextlib.ExitStack() as stack,
    ):
        create_topic(client, "large", 200)
        for start in range(0, 200, 40):
            partitions = range(start, start + 40)
            answers = produce(client, "large", *[batch(b"x" * 100_000)] * 40, partitions=partitions)
            assert {answer.error_code for answer in answers} == {NONE}
        for start in range(0, 200, 20):
            hog = stack.enter_context(RawClient(broker.bootstrap_servers))
            hog.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            hog.send(encode_request(fetch_of("large", range(start, start + 20)), 12, 7, "hog"))
        eventually(lambda: "unsent answers hold 2" in broker.log_path.read_text(), "one of them is sent away")
        create_topic(client, "others", 40)
        assert codes(client, "others", *[batch(b"x")] * 40) == [NONE] * 40
        missing = set(range(200))

        def all_is_read() -> bool:
            (topic,) = client.ask(fetch_of("large", sorted(missing)[:20]), 12).responses
            missing.difference_update(data.partition_index for data in topic.partitions if stored(data))
            return not missing

        eventually(all_is_read, "other clients read")


def fetch_of(topic: str, partitions: Iterable[int]) -> FetchRequest:
    """A request for partitions from their start, without a wait."""
    wanted = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in partitions]
    topics = [FetchTopic(topic=topic, partitions=wanted)]
    return FetchRequest(topics=topics, max_wait_ms=0, min_bytes=1, max_bytes=50 << 20)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkapyProcess]:
    settings = {
        **EIGHT_PARTITIONS,
        "group.initial.rebalance.delay.ms": "0",
        "replica.high.watermark.checkpoint.interval.ms": "100",
        "log.segment.delete.delay.ms": "0",
    }
    with KafkapyProcess(tmp_path_factory.mktemp("broker"), properties=settings) as process:
        yield process
        assert "is offline from now on" not in process.log_path.read_text()


@pytest.fixture
def client(broker: KafkapyProcess) -> Iterator[RawClient]:
    with asking(broker) as connected:
        yield connected


def test_a_produce_to_a_fresh_partition_succeeds_later(broker: KafkapyProcess, client: RawClient) -> None:
    create_topic(client, "fresh", 3)
    assert codes(client, "fresh", batch(b"before")) == [NONE]
    with starving(broker):
        starved_codes(client, "fresh", batch(b"meanwhile"))
        assert starved_codes(client, "fresh", batch(b"x"), batch(b"x"), batch(b"x")) >= {STORAGE_ERROR}
    assert codes(client, "fresh", *[batch(b"after")] * 3) == [NONE] * 3
    assert [values(data)[-1] for data in fetch(client, "fresh", 0, 0, 0)] == [b"after"] * 3


def test_a_segment_is_rolled_later(broker: KafkapyProcess, client: RawClient) -> None:
    create_topic(client, "rolls", configs={"segment.bytes": "1048576"})
    large = batch(b"x" * 700_000)
    assert codes(client, "rolls", large) == [NONE]
    with starving(broker):
        assert starved_codes(client, "rolls", large) == {STORAGE_ERROR}
    assert codes(client, "rolls", large) == [NONE]
    (data,) = fetch(client, "rolls", 1)
    assert data.high_watermark == 2


def test_a_topic_created_meanwhile_can_be_produced_to_later(
    broker: KafkapyProcess, client: RawClient
) -> None:
    with starving(broker):
        create_topic(client, "created", 60)
        assert starved_codes(client, "created", *[batch(b"x")] * 60) == {STORAGE_ERROR}
    eventually(lambda: set(codes(client, "created", *[batch(b"x")] * 60)) == {NONE}, "all are online", HEALED)


def test_a_topic_deleted_meanwhile_leaves_no_files(broker: KafkapyProcess, client: RawClient) -> None:
    create_topic(client, "deleted", 60)
    assert set(codes(client, "deleted", *[batch(b"x")] * 60)) == {NONE}
    with starving(broker):
        (answer,) = client.ask(DeleteTopicsRequest(topic_names=["deleted"], timeout_ms=10_000), 5).responses
        assert answer.error_code == NONE
    data = broker.folder / "data"
    eventually(lambda: not list(data.glob("deleted-*")), "the files are removed", HEALED)


def test_a_commit_to_a_fresh_partition_of_the_offsets_topic_succeeds_later(
    broker: KafkapyProcess, client: RawClient
) -> None:
    find_coordinator(client, "fresh")
    create_topic(client, "t")
    member = join(client, "fresh")
    assert sync(client, "fresh", member).error_code == NONE
    beat = HeartbeatRequest(group_id="fresh", generation_id=1, member_id=member.member_id)
    groups = [f"g{number}" for number in range(20)]
    with starving(broker):
        told = {commit(client, group, {("t", 0): 1})["t", 0] for group in groups}
        assert told == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert client.ask(beat, 4).error_code == NONE
    assert {commit(client, group, {("t", 0): 2})["t", 0] for group in groups} == {NONE}
    assert client.ask(beat, 4).error_code == NONE
    assert client.ask(ListGroupsRequest(), 4).error_code == NONE


def test_checkpoints_are_written_later(broker: KafkapyProcess, client: RawClient) -> None:
    create_topic(client, "checked")
    checkpoint = broker.folder / "data" / "replication-offset-checkpoint"
    assert codes(client, "checked", batch(b"x")) == [NONE]
    eventually(lambda: "checked 0 1" in checkpoint.read_text(), "it is written")
    with starving(broker):
        starved_codes(client, "checked", batch(b"x"))
        before = broker.log_path.read_text().count("replication-offset-checkpoint")
        eventually(
            lambda: broker.log_path.read_text().count("replication-offset-checkpoint") > before, "it is tried"
        )
        assert "checked 0 1" in checkpoint.read_text()
    assert codes(client, "checked", batch(b"x")) == [NONE]
    eventually(lambda: "checked 0 1\n" not in checkpoint.read_text(), "it is written", HEALED)


def test_a_client_that_could_not_be_accepted_is_served_later(broker: KafkapyProcess) -> None:
    with contextlib.ExitStack() as stack:
        before = broker.log_path.read_text().count("Cannot accept connections")
        with starving(broker):
            waiting = [stack.enter_context(RawClient(broker.bootstrap_servers)) for _ in range(5)]
            eventually(
                lambda: broker.log_path.read_text().count("Cannot accept connections") > before, "it is tried"
            )
            for each in waiting:
                each.send(api_versions())
        assert [correlation_ids(each, 1) for each in waiting] == [[7]] * 5
        assert broker.log_path.read_text().count("Cannot accept connections") == before + 1, "once is enough"


def test_a_partition_is_read_later(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path) as broker, asking(broker) as client:
        create_topic(client, "read", 2)
        assert codes(client, "read", batch(b"x"), batch(b"y")) == [NONE, NONE]
        broker.stop()
    with KafkapyProcess(tmp_path) as broker, asking(broker) as client:
        with starving(broker):
            assert [data.error_code for data in fetch(client, "read", 0, 0)] == [STORAGE_ERROR] * 2
        assert [values(data) for data in fetch(client, "read", 0, 0)] == [[b"x"], [b"y"]]


def test_groups_whose_partitions_could_not_be_made_are_coordinated_later(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path, properties=EIGHT_PARTITIONS) as broker, asking(broker) as client:
        create_topic(client, "t")
        with starving(broker):
            find_coordinator(client, "g")
            assert commit(client, "g", {("t", 0): 1})["t", 0] is not NONE
            assert client.ask(ListGroupsRequest(), 4).error_code == NONE
        eventually(
            lambda: {commit(client, f"g{n}", {("t", 0): 1})["t", 0] for n in range(20)} == {NONE},
            "all are coordinated",
            HEALED,
        )
        assert committed(fetch_offsets(client, "g3", None)) == {("t", 0): 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_that_stops_without_descriptors_loses_nothing(tmp_path: Path, number: int) -> None:
    with KafkapyProcess(tmp_path) as broker, asking(broker) as client:
        create_topic(client, "kept", 10)
        with starving(broker):
            create_topic(client, "made", 2)
            starved_codes(client, "kept", *[batch(b"x")] * 10)
        assert codes(client, "kept", *[batch(b"y")] * 5) == [NONE] * 5
        with starving(broker):
            # The files of the first five are closed for the others, so their flushes are still to be made.
            starved_codes(client, "kept", *[batch(b"z")] * 10)
            broker.process.send_signal(number)
            assert broker.wait(20) is not None
        assert "is offline from now on" not in broker.log_path.read_text()
    with KafkapyProcess(tmp_path) as broker, asking(broker) as client:
        for data in fetch(client, "kept", *[0] * 5):
            assert b"y" in values(data)
        assert codes(client, "made", batch(b"x"), batch(b"x")) == [NONE, NONE]
