"""The embedded store's own guarantees: its file, other processes, damage, SIGKILL."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.sqlite_tree import SqliteTree
from kafkapy.metadata.store import Create, Delete, MetadataStoreError, NodeExistsError, WatchEvent
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import LogDirectory
from tests.loop.turned_clock import TurnedClock
from tests.storage.descriptors import no_descriptors_left

WRITER = """
import asyncio, sys
from pathlib import Path
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import Create

async def main():
    store = await EmbeddedStore.open(Path(sys.argv[1]), sync=True)
    await store.create("/broker", ephemeral=True)
    if await store.exists("/pairs") is None:
        await store.create("/pairs")
    number = len(await store.children("/pairs")) // 2
    print("open", flush=True)
    while True:
        await store.multi([Create(f"/pairs/{number:06d}a"), Create(f"/pairs/{number:06d}b", b"x" * 500)])
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


async def start_writer(path: Path) -> asyncio.subprocess.Process:
    """A process that holds the file open and commits pairs of nodes.

    It prints the number of each pair that it has committed.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"open\n"
    return process


async def test_nodes_survive_a_restart_and_ephemeral_ones_do_not(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = await EmbeddedStore.open(path, sync=True)
    await store.create("/cluster", b"id")
    await store.create("/controller", ephemeral=True)
    (zxid,) = {(await store.get("/controller")).stat.created_zxid}
    await store.close()
    assert os.listdir(tmp_path) == ["metadata.db"]

    store = await EmbeddedStore.open(path, sync=True)
    assert await store.children("/") == ["cluster"]
    assert (await store.get("/cluster")).data == b"id"
    await store.create("/controller", ephemeral=True)
    assert (await store.get("/controller")).stat.created_zxid > zxid
    await store.close()


async def test_what_was_committed_survives_sigkill_and_no_half_of_a_multi_shows(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    delays = random.Random(20260801)
    acknowledged = -1
    for _ in range(4):
        process = await start_writer(path)
        assert process.stdout is not None
        for _ in range(delays.randrange(1, 60)):
            acknowledged = int(await process.stdout.readline())
        process.kill()
        *late, _ = (await process.stdout.read()).split(b"\n")
        acknowledged = int(late[-1]) if late else acknowledged
        await process.wait()
        store = await EmbeddedStore.open(path, sync=True)
        names = await store.children("/pairs")
        assert await store.exists("/broker") is None
        await store.close()
        pairs = len(names) // 2
        assert names == [f"{number:06d}{half}" for number in range(pairs) for half in "ab"]
        assert pairs >= acknowledged + 1


async def test_a_file_in_use_by_another_process_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    process = await start_writer(path)
    try:
        with pytest.raises(MetadataStoreError) as caught:
            await EmbeddedStore.open(path, sync=False)
    finally:
        process.kill()
        await process.communicate()
    assert str(path) in str(caught.value)
    assert "in use by another process" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"this is not a database" * 100, b"SQLite format 3\0" + bytes(4096)])
async def test_a_damaged_file_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(content)
    with pytest.raises(MetadataStoreError) as caught:
        await EmbeddedStore.open(path, sync=False)
    assert str(path) in str(caught.value)
    assert "damaged" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_damage_inside_the_file_is_found_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = await EmbeddedStore.open(path, sync=False)
    for number in range(200):
        await store.create(f"/{number}", b"x" * 200)
    await store.close()
    content = bytearray(path.read_bytes())
    assert len(content) > 8 * 4096
    content[4 * 4096 : 9 * 4096] = b"\xa5" * (5 * 4096)
    path.write_bytes(content)
    with pytest.raises(MetadataStoreError, match="damaged"):
        await EmbeddedStore.open(path, sync=False)


def test_nodes_are_counted_right_whatever_fails(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.db")
    tree = SqliteTree(path, sync=False)
    tree.begin()
    tree.apply([Create("/a"), Create("/a/b"), Create("/ephemeral", ephemeral=True)], session=1)
    with pytest.raises(NodeExistsError):
        tree.apply([Create("/c"), Delete("/a/b"), Create("/a")], session=1)
    tree.apply([Delete("/a/b")], session=1)
    tree.commit()
    tree.begin()
    tree.apply([Create("/d")], session=1)
    tree.rollback()
    tree.close()
    for _ in range(2):  # opening checks the count; the second time, the count that the first has written
        tree = SqliteTree(path, sync=False)
        assert list(tree.subtree("/")) == ["/a"]
        tree.close()


def test_a_full_disk_in_the_middle_of_a_transaction_leaves_what_was_there(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.db")
    tree = SqliteTree(path, sync=False)
    tree.begin()
    tree.apply([Create("/a")], session=1)
    tree.commit()
    tree._db.execute("PRAGMA max_page_count = 4")
    tree.begin()
    with pytest.raises(sqlite3.OperationalError, match="full"):
        tree.apply([Create(f"/{number}", b"x" * 1000) for number in range(100)], session=1)
    tree.rollback()
    tree.begin()
    tree.apply([Create("/b")], session=1)
    tree.commit()
    tree.close()
    tree = SqliteTree(path, sync=False)
    assert list(tree.subtree("/")) == ["/a", "/b"]
    tree.close()


async def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (x)")
    database.close()
    with pytest.raises(MetadataStoreError, match="is not a metadata database"):
        await EmbeddedStore.open(path, sync=False)


async def test_a_directory_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(MetadataStoreError, match="cannot be used"):
        await EmbeddedStore.open(tmp_path / "absent" / "metadata.db", sync=False)


async def test_brokers_with_loops_of_their_own_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = await EmbeddedStore.open(path, sync=False)
    await store.create("/ids")

    async def other_broker(number: int) -> None:
        session = await EmbeddedStore.open(path, sync=False)
        for i in range(50):
            await session.create(f"/ids/{number}-{i}")
        await session.close()

    threads = [threading.Thread(target=asyncio.run, args=[other_broker(n)]) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert len(await store.children("/ids")) == 150
    await store.close()


@pytest.mark.parametrize("step", ["begin", "apply", "commit"])
async def test_a_lack_of_memory_costs_the_requests_that_met_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=True)
    works = getattr(SqliteTree, step)
    left = [MemoryError()]

    def lacks(self: SqliteTree, *args: object) -> object:
        if left:
            raise left.pop()
        return works(self, *args)

    monkeypatch.setattr(SqliteTree, step, lacks)
    async with asyncio.timeout(10):
        with pytest.raises(MetadataStoreError, match="memory"):
            await store.create("/a")
        await store.create("/a")
        await store.close()


def test_a_file_that_cannot_be_opened_for_want_of_a_descriptor_says_so(tmp_path: Path) -> None:
    with no_descriptors_left(), pytest.raises(MetadataStoreError, match="ulimit -n"):
        SqliteTree(str(tmp_path / "metadata.db"), sync=True)


class Disk(FileSystem):
    """One with as much room as the broker could want."""

    def free_bytes(self, path: str) -> int:
        return 1 << 40


def log_directory(path: Path, *, reserve: bool = False) -> LogDirectory:
    """The directory that a metadata.db lies in."""
    directory = LogDirectory(str(path), files=Disk(), clock=TurnedClock(), durability="fsync")
    if reserve:
        directory.space.look(0)
        assert directory.space.reserved
    return directory


def failing(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> None:
    """Have the next commits fail as SQLite does."""
    commit, left = SqliteTree.commit, [name] * times

    def fail(tree: SqliteTree) -> None:
        if left:
            error = sqlite3.OperationalError("it fails")
            error.sqlite_errorname = left.pop()
            raise error
        commit(tree)

    monkeypatch.setattr(SqliteTree, "commit", fail)


async def test_a_commit_that_finds_the_disk_full_takes_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = log_directory(tmp_path, reserve=True)
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=True, directory=directory)
    heard: list[WatchEvent] = []
    failing(monkeypatch, "SQLITE_FULL", 1)
    await asyncio.gather(store.exists("/a", heard.append), store.create("/a", b"1"))
    assert (await store.get("/a")).data == b"1"
    assert len(heard) == 1
    assert directory.space.reserved == directory.space.reserve_bytes // 2
    await store.close()


async def test_a_start_that_finds_the_disk_full_takes_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = log_directory(tmp_path, reserve=True)
    failing(monkeypatch, "SQLITE_FULL", 1)
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=True, directory=directory)
    await store.create("/a")
    await store.close()


async def test_a_full_disk_refuses_a_commit_and_takes_the_next_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = log_directory(tmp_path)
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=True, directory=directory)
    failing(monkeypatch, "SQLITE_FULL", 1)
    with pytest.raises(MetadataStoreError, match="the disk is full"):
        await store.create("/a")
    assert await store.exists("/a") is None
    await store.create("/a")
    assert directory.error is None
    await store.close()


@pytest.mark.parametrize("name", ["SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR"])
async def test_a_disk_that_fails_a_commit_is_offline_and_takes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directory = log_directory(tmp_path)
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=True, directory=directory)
    failing(monkeypatch, name, 1)
    with pytest.raises(MetadataStoreError, match="it fails"):
        await store.create("/a")
    assert directory.error is not None
    with pytest.raises(MetadataStoreError, match="it fails"):
        await store.create("/b")
    await store.close()


async def test_a_lack_of_memory_is_no_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = log_directory(tmp_path)
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=True, directory=directory)
    failing(monkeypatch, "SQLITE_IOERR_NOMEM", 1)
    with pytest.raises(MetadataStoreError):
        await store.create("/a")
    await store.create("/a")
    assert directory.error is None
    await store.close()


async def test_a_session_is_not_told_of_its_own_changes_in_a_tree(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=False)
    heard: list[WatchEvent] = []
    await store.watch("/", heard.extend)
    await store.create("/a")
    await store.close()
    assert heard == []
