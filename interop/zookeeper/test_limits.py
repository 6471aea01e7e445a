"""What ZooKeeper takes and gives at once, and which servers are none that can be used."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.zookeeper_process import ZooKeeperProcess
from interop.zookeeper.conftest import SESSION_SECONDS
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import open_cluster
from kafkapy.metadata.store import Create, MetadataStore, MetadataStoreError, Operation, SetData
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.metadata.zookeeper import MAX_CHANGE_BYTES, ZooKeeperStore
from kafkapy.metadata.zookeeper_access import TicketLogin, ZooKeeperAccess
from kafkapy.protocol.types import random_uuid
from kafkapy.security.sasl.kerberos.exchange import KerberosError

OLD = "2.8.2"
"""The last release of Kafka with a ZooKeeper before 3.6."""
TOPICS = 100
PARTITIONS = 100


@pytest.fixture(scope="module")
def old_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with skipped_without_jars():
        kafka_jars(OLD)
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"), OLD) as process:
        yield process


@pytest.fixture
async def patient_store(connect: str) -> AsyncIterator[MetadataStore]:
    """A session that outlives the seconds that a large change may take on a busy machine."""
    store = await ZooKeeperStore.open(connect, session_timeout=30, connection_timeout=20)
    yield store
    await store.close()


async def test_the_largest_change_is_made_and_a_larger_one_is_refused(
    patient_store: MetadataStore, connect: str
) -> None:
    store = patient_store
    await store.create("/a")
    session = store.session_id
    overhead = 64 + len("/a") + len(connect) - connect.index("/")
    await store.set("/a", bytes(MAX_CHANGE_BYTES - overhead))
    with pytest.raises(MetadataStoreError, match="A change of 1 nodes takes 1,000,001 bytes, and ZooKeeper"):
        await store.set("/a", bytes(MAX_CHANGE_BYTES - overhead + 1))
    assert (await store.get("/a")).stat.version == 1
    many: list[Operation] = [Create(f"/a/{n}", b"x" * 80) for n in range(8_000)]
    with pytest.raises(MetadataStoreError, match="A change of 8000 nodes takes"):
        await store.multi(many)
    await store.multi(many[:6_000])
    await store.multi([SetData(each.path, b"") for each in many[:6_000]])
    assert len(await store.children("/a")) == 6_000
    assert store.session_id == session


async def test_a_node_of_each_size_is_read_with_others(store: MetadataStore) -> None:
    await store.create("/a")
    contents = {f"/a/{n}": bytes([n]) * size for n, size in enumerate((0, 1, 1000, 900_000, 3))}
    for path, data in contents.items():
        await store.create(path, data)
    found = await store.subtree("/a")
    assert {path: node.data for path, node in found.items()} == contents
    assert found == {path: await store.get(path) for path in contents}


async def test_ten_thousand_partitions_are_read_in_seconds(
    store: MetadataStore, record_property: Callable[[str, object], None]
) -> None:
    await open_cluster(store, shared=True)
    state = znodes.encode_state(LeaderAndIsr(1, 0, (1, 2, 3), 1))
    replicas = [ReplicaAssignment((1, 2, 3))] * PARTITIONS
    for number in range(TOPICS):
        name = f"topic-{number}"
        operations: list[Operation] = [
            Create(znodes.topic_path(name), znodes.encode_topic(random_uuid(), replicas)),
            Create(znodes.partitions_path(name)),
            Create(znodes.topic_config_path(name), znodes.encode_config({})),
        ]
        for index in range(PARTITIONS):
            operations.append(Create(znodes.partition_path(name, index)))
            operations.append(Create(znodes.partition_state_path(name, index), state))
        await store.multi(operations)
    started = time.monotonic()
    image = await open_cluster(store, shared=True)
    seconds = time.monotonic() - started
    record_property("seconds", seconds)
    print(f"{TOPICS * PARTITIONS:,} partitions were read in {seconds:.2f} s")
    assert sum(len(topic.partitions) for topic in image.topics.values()) == TOPICS * PARTITIONS
    assert all(state.isr == (1, 2, 3) for topic in image.topics.values() for state in topic.partitions)
    assert seconds < 20


async def test_a_zookeeper_before_3_6_is_refused_and_nothing_is_written(
    old_zookeeper: ZooKeeperProcess,
) -> None:
    address = old_zookeeper.bootstrap_servers
    with pytest.raises(MetadataStoreError, match=rf"^The ZooKeeper at {address}/kafka is older than 3\.6"):
        await ZooKeeperStore.open(f"{address}/kafka", session_timeout=SESSION_SECONDS, connection_timeout=20)
    client = KazooClient(address)
    await asyncio.to_thread(client.start)
    try:
        assert await asyncio.to_thread(client.get_children, "/") == ["zookeeper"]
    finally:
        await asyncio.to_thread(client.stop)
        client.close()


async def test_another_server_is_not_taken_for_a_zookeeper() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        message = rf"127\.0\.0\.1:{port} accepts connections: it is another server"
        with pytest.raises(MetadataStoreError, match=message):
            await ZooKeeperStore.open(f"127.0.0.1:{port}", session_timeout=4, connection_timeout=1)


async def test_a_server_that_says_nothing_is_not_taken_for_a_zookeeper() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(MetadataStoreError, match=rf"127\.0\.0\.1:{port} accepts connections"):
            await ZooKeeperStore.open(f"127.0.0.1:{port}", session_timeout=4, connection_timeout=1)


async def test_a_centre_of_kerberos_that_does_not_answer_holds_up_no_end() -> None:
    asked, gives_up = threading.Event(), threading.Event()

    def answer(_: bytes | None) -> bytes | None:
        asked.set()
        assert gives_up.wait(60)
        raise KerberosError("no centre answers")

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        await reader.readexactly(size)
        session = struct.pack(">iiqi16x?", 0, 4000, 7, 16, False)
        writer.write(struct.pack(">i", len(session)) + session)

    access = ZooKeeperAccess(login=TicketLogin("kafka/host@REALM", lambda _: answer))
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    started = time.monotonic()
    try:
        with pytest.raises(MetadataStoreError, match="or Kerberos gives no ticket for it"):
            await ZooKeeperStore.open(address, session_timeout=4, connection_timeout=1, access=access)
        assert asked.is_set()
        assert time.monotonic() - started < 30
    finally:
        gives_up.set()
        server.close()


async def test_a_name_that_nobody_knows_is_said() -> None:
    with pytest.raises(MetadataStoreError, match=r"The name zookeeper\.invalid cannot be resolved\. Correct"):
        await ZooKeeperStore.open("zookeeper.invalid:2181", session_timeout=4, connection_timeout=0.5)


async def test_the_first_node_makes_the_chroot(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    connect = f"{zookeeper.bootstrap_servers}/{tmp_path.name}/deep/chroot"
    store = await ZooKeeperStore.open(connect, session_timeout=SESSION_SECONDS, connection_timeout=20)
    try:
        assert await store.exists("/") is None
        assert await store.subtree("/") == {}
        heard: list[object] = []
        await store.watch("/brokers", heard.extend)
        image = await open_cluster(store, shared=True)
        assert (await open_cluster(store, image.cluster_id, shared=True)).cluster_id == image.cluster_id
        assert heard
    finally:
        await store.close()
