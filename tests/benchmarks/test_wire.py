"""Answers are read whole, whatever their size."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from scripts.benchmarks.wire import receive

ANSWER = bytes(range(256)) * 10_000


def test_an_answer_that_comes_in_parts_is_read_whole() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)  # a socket with a timeout gives what has come so far
        sending = threading.Thread(target=theirs.sendall, args=(struct.pack(">i", len(ANSWER)) + ANSWER,))
        sending.start()
        assert receive(ours) == ANSWER
        sending.join()


def test_a_connection_that_ends_within_an_answer_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.sendall(struct.pack(">i", 100) + b"too short")
        with pytest.raises(RuntimeError, match="the server closed the connection"):
            receive(ours)
