"""Index pages and batch headers that the page cache lacks are loaded in threads."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.storage.disk.files import (
    File,
    FileSlice,
    FileSystem,
    NotCachedError,
)
from tests.handlers.produce_client import (
    FETCH_VERSION,
    batch,
    create_topic,
    fetch_request,
    produce,
    values,
)
from tests.network.raw_client import RawClient, api_versions, correlation_ids
from tests.storage.page_cache import replace_page_cache

PAGE = 4096
PARTITIONS = 4
BATCHES = 120
SETTINGS = {"index.interval.bytes": "200"}


class PageCache:
    """A page cache that has what was loaded since it was emptied."""

    def __init__(self) -> None:
        self.forgetful = False
        """It drops at once whatever is loaded."""
        self.broken = False
        """The disk fails to read what is to be loaded."""
        self.loads = 0
        self.counts_open_logs = False
        """Slow in a process with thousands of descriptors."""
        self.most_open = 0
        """The most logs whose files were open at a load."""
        self.waits: list[str] = []
        """Threads that read from the disk what was not loaded before."""
        self._pages: set[tuple[str, int]] | None = None

    def empty(self) -> None:
        self._pages = set()

    def has(self, file: File, position: int, nbytes: int) -> bool:
        return self._pages is None or self._wanted(file, position, nbytes) <= self._pages

    def load(self, part: FileSlice, offset: int, nbytes: int) -> None:
        self.loads += 1
        if self.counts_open_logs:
            self.most_open = max(self.most_open, _open_logs())
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self._pages is not None and not self.forgetful:
            self._pages |= self._wanted(part.file, part.position + offset, nbytes)

    def note_read(self, file: File, position: int, nbytes: int) -> None:
        if not self.has(file, position, nbytes):
            self.waits.append(threading.current_thread().name)

    def _wanted(self, file: File, position: int, nbytes: int) -> set[tuple[str, int]]:
        path = str(Path(f"/proc/self/fd/{file.fd}").readlink())
        return {(path, page) for page in range(position // PAGE, (position + nbytes - 1) // PAGE + 1)}


def _open_logs() -> int:
    links = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            links.append(each.readlink())
    return sum(link.suffix == ".log" for link in links)


@pytest.fixture
def page_cache(monkeypatch: pytest.MonkeyPatch) -> PageCache:
    cache = PageCache()
    read_at = FileSystem.read_at

    def noted(self: FileSystem, file: File, nbytes: int, position: int) -> bytes:
        data = read_at(self, file, nbytes, position)
        cache.note_read(file, position, nbytes)
        return data

    replace_page_cache(monkeypatch, cache.has, cache.load)
    monkeypatch.setattr(FileSystem, "read_at", noted)
    return cache


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """A broker that was started again, so that it remembers no position."""
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", PARTITIONS, SETTINGS)
        for number in range(BATCHES):
            produce(client, "orders", *(batch(b"%d-%d" % (index, number)) for index in range(PARTITIONS)))
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        yield broker.bootstrap_servers


def request(offset: int, *, max_bytes: int = 500) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        for index in range(PARTITIONS)
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="orders", partitions=partitions)],
    )


def read(client: RawClient, offset: int) -> list[list[bytes]]:
    """The values of each partition from `offset` on."""
    answers = client.ask(request(offset), FETCH_VERSION).responses[0].partitions
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * PARTITIONS
    return [[value for value in values(answer) if value is not None] for answer in answers]


def test_a_fetch_loads_in_threads_what_its_search_needs(page_cache: PageCache, bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        for offset in (0, 7, 61, 118):
            page_cache.empty()
            page_cache.loads = 0
            got = read(client, offset)
            assert page_cache.loads >= PARTITIONS
            for index, found in enumerate(got):
                assert found == [b"%d-%d" % (index, offset + at) for at in range(len(found))]
                assert found
    assert page_cache.waits == []


def test_a_page_cache_that_keeps_nothing_does_not_keep_a_client_waiting_for_ever(
    page_cache: PageCache, bootstrap: str
) -> None:
    page_cache.empty()
    page_cache.forgetful = True
    with RawClient(bootstrap) as client:
        assert all(read(client, 33))
    assert page_cache.waits  # at last a read waits for the disk


def test_what_could_not_be_loaded_is_not_loaded_again(page_cache: PageCache, bootstrap: str) -> None:
    """A disk takes seconds for each failure.

    The read that waits for it gets its error.
    """
    page_cache.empty()
    page_cache.broken = True
    with RawClient(bootstrap) as client:
        assert all(read(client, 33))
    assert page_cache.loads <= 2 * PARTITIONS  # once for the search, once for sending
    assert page_cache.waits


def test_a_fetch_of_many_cold_partitions_holds_few_of_their_files(
    page_cache: PageCache, tmp_path: Path
) -> None:
    many, open_files, per_answer = 200, 64, 16
    with kafkapy.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", many)
        produce(client, "orders", *(batch(b"value") for _ in range(many)))
    config = {"log.max.open.files": open_files}
    with (
        kafkapy.Broker(data_dir=tmp_path, config=config) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        page_cache.empty()
        page_cache.counts_open_logs = True
        others = _open_logs()  # of other tests
        answers = client.ask(fetch_request("orders", *[0] * many), FETCH_VERSION).responses[0].partitions
    assert len([answer for answer in answers if answer.records]) == per_answer
    assert page_cache.most_open - others <= open_files + per_answer


@pytest.mark.parametrize("is_cold", [True, False])
def test_a_fetch_that_is_cancelled_before_it_waits_holds_no_file(
    page_cache: PageCache, bootstrap: str, monkeypatch: pytest.MonkeyPatch, is_cold: bool
) -> None:
    """Its client's connection is closed in the same turn of the event loop."""
    held: set[FileSlice] = set()
    make, release, go_on = FileSlice.__init__, FileSlice.release, asyncio.ensure_future

    def noted(self: FileSlice, file: File, position: int, nbytes: int) -> None:
        make(self, file, position, nbytes)
        held.add(self)

    def released(self: FileSlice) -> None:
        release(self)
        held.discard(self)

    def cancelled(coroutine: Any, **options: Any) -> Any:
        task = go_on(coroutine, **options)
        if coroutine.__name__ == "_go_on":
            task.cancel()
        return task

    with RawClient(bootstrap) as client:
        read(client, 0)
        if is_cold:
            page_cache.empty()
        with monkeypatch.context() as patch:
            patch.setattr(FileSlice, "__init__", noted)
            patch.setattr(FileSlice, "release", released)
            patch.setattr(asyncio, "ensure_future", cancelled)
            waits = fetch_request("orders", *[9] * PARTITIONS, min_bytes=1 << 20, max_wait_ms=100)
            client.send(encode_request(waits, FETCH_VERSION, 7, "raw") + api_versions(8))
            assert correlation_ids(client, 1) == [8]
            assert held == set()


def test_reads_of_other_threads_wait_for_the_disk(page_cache: PageCache, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    file_system = FileSystem()
    file = file_system.open(str(tmp_path / "file"))
    page_cache.empty()
    got: list[bytes] = []
    with file_system.cached_only():
        with pytest.raises(NotCachedError) as raised:
            file_system.read_at(file, 10, 0)
        raised.value.slice.release()
        other = threading.Thread(target=lambda: got.append(file_system.read_at(file, 10, 0)))
        other.start()
        other.join()
        with file_system.waiting_for_disk():
            got.append(file_system.read_at(file, 10, 0))
        with pytest.raises(NotCachedError) as raised:
            file_system.read_into(file, memoryview(bytearray(10)), 0)
        raised.value.slice.release()
    got.append(file_system.read_at(file, 10, 0))
    assert got == [b"x" * 10] * 3
    file.release()
