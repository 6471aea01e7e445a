"""Nobody waits for a stream that nobody reads, and what is dropped is counted."""

from __future__ import annotations

import fcntl
import logging
import os
import resource
import select
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

import pytest

from kafkapy.logs.line_writer import LineWriter
from kafkapy.logs.set_up import _QueueingHandler
from tests.loop.thread_starts import no_thread_starts
from tests.network.raw_client import eventually

PIPE_BYTES = 4096
DEADLINE_MS = 30_000


class Pipe:
    """A small one."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.stream: TextIO = os.fdopen(writing, "w")

    def read_until(self, end: bytes) -> list[str]:
        """The lines up to one that ends so."""
        poll, data = select.poll(), b""
        poll.register(self.reading, select.POLLIN)
        while not data.endswith(end + b"\n"):
            assert poll.poll(DEADLINE_MS), f"nothing more comes after {data[-99:]!r}"
            data += os.read(self.reading, 65536)
        return data.decode().splitlines()

    def close_reader(self) -> None:
        os.close(self.reading)
        self.reading = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    with suppress(OSError):
        pipe.close_reader()
    with suppress(OSError):
        pipe.stream.close()


def test_lines_come_in_their_order_and_whole(pipe: Pipe) -> None:
    writer = LineWriter(pipe.stream)
    lines = [f"line {number} ".ljust(number % 9000, "x") for number in range(0, 30_000, 999)]
    for line in (*lines, "end"):
        writer.write(line)
    assert pipe.read_until(b"end") == [*lines, "end"]
    assert writer.flush(10)


def test_nobody_waits_for_a_reader_and_what_is_dropped_is_counted(pipe: Pipe) -> None:
    writer = LineWriter(pipe.stream, "{} are gone".format)
    writer.max_lines = 100
    writer.write("x" * 2 * PIPE_BYTES)
    assert not writer.flush(0.05), "it is stuck"
    eventually(lambda: not writer.queued, "the thread has it")
    for number in range(150):
        writer.write(f"line {number}")
    assert not writer.flush(0)
    lines = pipe.read_until(b"gone")
    assert lines[1:] == [*(f"line {number}" for number in range(100)), "50 are gone"]
    writer.write("again")
    assert pipe.read_until(b"again") == ["again"]


def test_long_lines_do_not_take_more_memory_than_short_ones(pipe: Pipe) -> None:
    writer = LineWriter(pipe.stream, "{} are gone".format)
    writer.max_bytes = 10_000
    writer.write("x" * 2 * PIPE_BYTES)
    eventually(lambda: not writer.queued, "the thread has it")
    for _ in range(5):
        writer.write("y" * 4000)
    assert pipe.read_until(b"gone")[1:] == ["y" * 4000, "y" * 4000, "3 are gone"]


def test_a_reader_that_went_away_harms_nobody(pipe: Pipe) -> None:
    writer = LineWriter(pipe.stream)
    pipe.close_reader()
    for _ in range(3):
        writer.write("x")
        assert writer.flush(10)


def test_a_pipe_that_somebody_made_non_blocking_is_waited_for(pipe: Pipe) -> None:
    os.set_blocking(pipe.stream.fileno(), False)
    writer = LineWriter(pipe.stream)
    writer.write("x" * 10 * PIPE_BYTES)
    writer.write("end")
    assert len(pipe.read_until(b"end")) == 2


@pytest.fixture
def descriptors() -> Iterator[None]:
    """As many as the system lets this process have."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("descriptors")
def test_a_descriptor_may_have_any_number(pipe: Pipe) -> None:
    descriptor = fcntl.fcntl(pipe.stream.fileno(), fcntl.F_DUPFD, 1024)
    with os.fdopen(descriptor, "w") as stream:
        os.set_blocking(descriptor, False)
        writer = LineWriter(stream)
        writer.write("x" * 10 * PIPE_BYTES)
        writer.write("end")
        assert len(pipe.read_until(b"end")) == 2
        assert writer.flush(10)


def test_without_a_stream_lines_go_nowhere() -> None:
    writer = LineWriter(None)
    writer.write("x")
    assert writer.flush(10)


def test_a_lack_of_threads_delays_a_line(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LineWriter(pipe.stream)
    with monkeypatch.context() as patch:
        no_thread_starts(patch, lambda name: False)
        writer.write("one")
    writer.write("two")
    assert pipe.read_until(b"two") == ["one", "two"]


def test_a_line_that_cannot_be_made_says_where(pipe: Pipe) -> None:
    handler = _QueueingHandler(LineWriter(pipe.stream))
    handler.emit(logging.LogRecord("name", logging.INFO, "/path", 7, "%d", ("seven",), None))
    handler.emit(logging.LogRecord("name", logging.INFO, "/path", 8, "end", (), None))
    first, last = pipe.read_until(b"end")
    assert first.startswith("A log line of /path:7 cannot be formatted: TypeError(")
    assert last == "end"


def test_a_lack_of_memory_costs_lines_and_not_the_thread(pipe: Pipe) -> None:
    writer = LineWriter(pipe.stream, "{} are gone".format)
    write, left = writer._write, [MemoryError()]

    def lacks(data: bytes) -> None:
        if left:
            raise left.pop()
        write(data)

    writer._write = lacks  # type: ignore[method-assign]
    writer.write("lost")
    assert pipe.read_until(b"gone") == ["1 are gone"]
    writer.write("end")
    assert pipe.read_until(b"end") == ["end"]
