"""What the page cache does not have is read in a thread before it is sent."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import kafkapy
from kafkapy.network.channel import PlainChannel
from kafkapy.network.outbound import COPIED_BYTES, OutboundQueue
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.types import Part
from kafkapy.storage.disk.files import (
    File,
    FileSlice,
    FileSystem,
    is_cached,
)
from tests.calls import calls_of
from tests.handlers.produce_client import (
    FETCH_VERSION,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    values,
)
from tests.network.raw_client import RawClient

SIZE = 3 << 20


def cached_pages(path: Path) -> int:
    """How many pages of a file the kernel has; asking changes nothing."""
    size = path.stat().st_size
    pages = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(ctypes.byref(start), ctypes.c_size_t(size), pages)
        del start
    assert not failed
    return sum(page & 1 for page in pages)


def evict(path: Path) -> None:
    """Have the kernel forget what it has of a file; skip the test where it does not."""
    with path.open("rb") as file:
        for _ in range(50):  # a page that is being journalled stays
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if not cached_pages(path):
                return
            os.sync()
    pytest.skip("the kernel keeps the files of this file system in memory")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on a disk: where files are in memory, nothing is cold."""
    disk = Path(__file__).parents[2] / ".cache"
    disk.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=disk, prefix="cold-") as folder:
        yield Path(folder)


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    data = os.urandom(SIZE)
    (tmp_path / "file").write_bytes(data)
    return data


@pytest.fixture
def opened(tmp_path: Path, content: bytes) -> Iterator[File]:
    file = FileSystem().open(str(tmp_path / "file"))
    yield file
    file.release()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


def receive(sock: socket.socket, nbytes: int) -> bytes:
    data = b""
    while len(data) < nbytes:
        data += sock.recv(nbytes - len(data))
    return data


TRIES = 50
"""A disk may be so quick that the kernel has a page by the time it tells."""


@pytest.mark.parametrize("position", [0, 1, 4095, 4096, 131072])
@pytest.mark.parametrize("nbytes", [1, 4096, 100_000, 1 << 20])
def test_what_was_evicted_is_not_cached_and_what_was_read_is(
    tmp_path: Path, opened: File, position: int, nbytes: int
) -> None:
    for _ in range(TRIES):
        evict(tmp_path / "file")
        if not is_cached(opened, position, nbytes):
            break
    else:
        pytest.skip("the kernel does not tell")
    FileSlice(opened, position, nbytes).load(0, nbytes)
    assert is_cached(opened, position, nbytes)


def test_a_slice_whose_first_page_alone_is_cached_is_cold(tmp_path: Path, opened: File) -> None:
    os.posix_fadvise(opened.fd, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
    for _ in range(TRIES):
        evict(tmp_path / "file")
        os.pread(opened.fd, 10, 0)
        assert is_cached(opened, 0, 10)
        if not is_cached(opened, 100, 20_000):
            return
    pytest.skip("the kernel does not tell")


class ColdSlice(FileSlice):
    """A slice of which the queue finds no part in the page cache."""

    def is_cached(self, offset: int, nbytes: int) -> bool:
        return False


def test_a_cold_slice_is_sent_when_it_was_loaded_and_parts_after_it_wait(
    opened: File, content: bytes, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    queue = OutboundQueue(PlainChannel(ours))
    assert not queue.send([b"head", ColdSlice(opened, 10, PlainChannel.flush_bytes + 10), b"tail"])
    got = receive(theirs, 4)
    assert not queue.flush()
    assert not queue.send([b"another"])
    loads = 0
    while True:
        with contextlib.suppress(BlockingIOError):
            got += theirs.recv(1 << 20, socket.MSG_DONTWAIT)
        if queue.cold is not None:
            loads += 1
            assert queue.cold.nbytes <= PlainChannel.flush_bytes
            queue.loaded()
        if queue.flush():
            break
    got += receive(theirs, 4 + PlainChannel.flush_bytes + 10 + 11 - len(got))
    assert got == b"head" + content[10 : PlainChannel.flush_bytes + 20] + b"tailanother"
    assert loads == 2
    assert queue.nbytes == 0


class CountingChannel(PlainChannel):
    """Counts the calls."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.gathered = self.slices = 0

    def send_gathered(self, parts: Sequence[Part], *, more: bool) -> int:
        self.gathered += 1
        return super().send_gathered(parts, more=more)

    def send_slice(self, part: FileSlice, offset: int, nbytes: int) -> int:
        self.slices += 1
        return super().send_slice(part, offset, nbytes)


def test_small_slices_are_sent_together_with_what_is_around_them(
    opened: File, content: bytes, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    channel = CountingChannel(ours)
    queue = OutboundQueue(channel)
    assert queue.send([b"a", FileSlice(opened, 0, 100), b"b", FileSlice(opened, 500, COPIED_BYTES), b"c"])
    expected = b"a" + content[:100] + b"b" + content[500 : 500 + COPIED_BYTES] + b"c"
    assert receive(theirs, len(expected)) == expected
    assert (channel.gathered, channel.slices) == (1, 0)
    larger = COPIED_BYTES + 1
    assert queue.send([b"a", FileSlice(opened, 0, larger), b"b", FileSlice(opened, 500, 10)])
    assert receive(theirs, larger + 12) == b"a" + content[:larger] + b"b" + content[500:510]
    assert (channel.gathered, channel.slices) == (3, 1)


def test_the_rest_of_a_small_slice_is_sent_later(
    opened: File, content: bytes, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    queue = OutboundQueue(PlainChannel(ours))
    slices = [FileSlice(opened, 10_000 * index, 10_000) for index in range(200)]
    assert not queue.send([b"head", *slices, b"tail"])
    got = b""
    while not queue.flush():
        got += theirs.recv(1 << 20)
    got += receive(theirs, 8 + 2_000_000 - len(got))
    assert got == b"head" + content[:2_000_000] + b"tail"
    assert (queue.nbytes, queue.files) == (0, 0)


def test_a_queue_that_is_closed_while_a_slice_is_cold_lets_go_of_it(
    opened: File, pair: tuple[socket.socket, socket.socket]
) -> None:
    queue = OutboundQueue(PlainChannel(pair[0]))
    queue.send([ColdSlice(opened, 0, 100)])
    queue.close()
    queue.loaded()
    assert queue.flush()


def test_a_consumer_gets_evicted_records_that_a_thread_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = calls_of(monkeypatch, FileSlice, "load")
    with (
        kafkapy.Broker(data_dir=tmp_path / "data") as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "orders")
        for index in range(30):
            produce(client, "orders", batch(os.urandom(100_000), timestamp=1000 + index))
        (log,) = (tmp_path / "data").glob("**/orders-0/*.log")
        for _ in range(TRIES):
            evict(log)
            (data,) = fetch(client, "orders", 0)
            assert len(values(data)) > 5
            if loads:
                break
        else:
            pytest.skip("the kernel does not tell")
    assert all(call.thread.startswith("kafkapy-reader") for call in loads)


def test_clients_that_leave_while_their_answer_is_read_take_nothing_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def loads(*_: object) -> None:
        started.set()
        assert go_on.wait(30)

    monkeypatch.setattr(FileSlice, "is_cached", lambda *_: False)
    monkeypatch.setattr(FileSlice, "read_cached", lambda *_: None)
    monkeypatch.setattr(FileSlice, "load", loads)
    with (
        kafkapy.Broker(data_dir=tmp_path / "data") as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "orders")
        produce(client, "orders", batch(b"x" * 1000))
        with RawClient(broker.bootstrap_servers) as leaving:
            leaving.send(encode_request(fetch_request("orders", 0), FETCH_VERSION, 1, "raw"))
            assert started.wait(30)
        produce(client, "orders", batch(b"y" * 1000))  # nobody else waits
        go_on.set()
        (data,) = fetch(client, "orders", 0)
        assert len(values(data)) == 2
