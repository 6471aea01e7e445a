"""What happens to a session when ZooKeeper is unreachable, or has expired it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from interop.support.zookeeper_process import ZooKeeperProcess
from interop.zookeeper.conftest import SESSION_SECONDS
from kafkapy.metadata import zookeeper
from kafkapy.metadata.store import (
    EventType,
    MetadataStore,
    OutcomeUnknownError,
    WatchEvent,
)
from kafkapy.metadata.zookeeper import ZooKeeperStore
from tests.metadata.test_metadata_store import Heard, OpenSession


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def expire(store: ZooKeeperStore) -> None:
    """End the session as ZooKeeper does when it has not heard of it for too long."""
    hosts = ",".join(f"{host}:{port}" for host, port in store._client.hosts)
    double = KazooClient(hosts, client_id=store._client.client_id)
    await asyncio.to_thread(double.start)
    await asyncio.to_thread(double.stop)
    await asyncio.to_thread(double.close)


async def unanswered(store: MetadataStore, path: str) -> asyncio.Future[int]:
    """A change that a server which was told to stop does not answer."""
    while True:
        writing = asyncio.ensure_future(store.set(path, b"x"))
        answered, _ = await asyncio.wait([writing], timeout=1.0)
        if not answered:
            return writing


async def test_a_session_outlives_a_restart_of_the_server(tmp_path: Path) -> None:
    with ZooKeeperProcess(tmp_path) as server:
        store = await ZooKeeperStore.open(
            f"{server.bootstrap_servers}/kafka", session_timeout=30, connection_timeout=20
        )
        try:
            await store.create("/other")
            await store.create("/ids")
            await store.create("/ids/1", ephemeral=True)
            once = Heard()
            tree: list[WatchEvent] = []
            await store.get("/ids", once)
            await store.watch("/ids", tree.extend)
            session = store.session_id
            server.process.send_signal(signal.SIGSTOP)
            writing = await unanswered(store, "/other")
            server.kill()
            await until(lambda: bool(once.events))
            with pytest.raises(OutcomeUnknownError):
                await writing
            reading = asyncio.ensure_future(store.children("/ids"))
            server.start()
            assert await reading == ["1"]
            assert store.session_id == session
            await until(lambda: bool(tree))
            assert tree == [WatchEvent(EventType.UNKNOWN, "/ids")]
            await store.create("/ids/2")
            await until(lambda: len(tree) == 2)
            assert tree[1] == WatchEvent(EventType.CREATED, "/ids/2")
            assert once.events == [WatchEvent(EventType.CHANGED, "/ids")]
        finally:
            await store.close()


async def test_a_server_that_stays_away_is_explained_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(zookeeper, "SILENT_SECONDS", 0.5)
    with ZooKeeperProcess(tmp_path) as server:
        store = await ZooKeeperStore.open(server.bootstrap_servers, session_timeout=60, connection_timeout=20)
        server.kill()
        await until(lambda: "ZooKeeper has not answered for 0.5 s. Start it, or correct" in caplog.text)
        assert not store.is_connected
        server.start()
        await until(lambda: store.is_connected)
        await store.close()
    assert caplog.text.count("has not answered") == 1


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
async def test_a_session_ends_although_no_server_answers(tmp_path: Path, number: signal.Signals) -> None:
    with ZooKeeperProcess(tmp_path) as server:
        store = await ZooKeeperStore.open(server.bootstrap_servers, session_timeout=60, connection_timeout=20)
        await store.create("/a")
        server.process.send_signal(number)
        try:
            await asyncio.wait_for(store.close(), 20)
        finally:
            server.kill()


async def test_an_expired_session_is_followed_by_another_without_its_nodes(open_session: OpenSession) -> None:
    store, other = await open_session(), await open_session()
    assert isinstance(store, ZooKeeperStore)
    await store.create("/ids")
    await store.create("/ids/1", ephemeral=True)
    tree: list[WatchEvent] = []
    await store.watch("/ids", tree.extend)
    session = store.session_id
    await expire(store)
    await until(lambda: WatchEvent(EventType.UNKNOWN, "/ids") in tree)
    assert store.session_id != session
    assert await store.children("/ids") == []
    await store.create("/ids/1", ephemeral=True)
    stat = await other.exists("/ids/1")
    assert stat is not None
    assert stat.owner == store.session_id


DYING = """
import os, signal, sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1], timeout=float(sys.argv[2]))
client.start()
client.create("/ids", ephemeral=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_the_session_of_a_killed_process_expires(connect: str, store: MetadataStore) -> None:
    arguments = [sys.executable, "-c", DYING, connect, str(SESSION_SECONDS)]
    await asyncio.to_thread(subprocess.run, arguments, check=False)
    heard = Heard()
    assert await store.exists("/ids", heard) is not None
    await until(lambda: heard.events == [WatchEvent(EventType.DELETED, "/ids")])
