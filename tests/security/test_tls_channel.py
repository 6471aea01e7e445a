from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from kafkapy.network.channel import Handshake
from kafkapy.network.outbound import OutboundQueue
from kafkapy.network.tls_channel import READ_AT_ONCE, RECORD, TlsChannel
from kafkapy.protocol.types import Part
from kafkapy.storage.disk.files import FileSlice, FileSystem
from tests.security.certificates import Certificates, trusting


class Pair(NamedTuple):
    """A channel of the broker, and its client."""

    channel: TlsChannel
    client: ssl.SSLSocket


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def pair(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(certificates.server))
    context.maximum_version = request.param
    channel = TlsChannel(ours, context)
    trusted = trusting(certificates)
    wrapped: list[ssl.SSLSocket] = []
    connect = threading.Thread(
        target=lambda: wrapped.append(trusted.wrap_socket(theirs, server_hostname="127.0.0.1"))
    )
    connect.start()
    while channel.handshake() is not Handshake.DONE:
        pass
    channel.handshake_pending = False
    connect.join()
    yield Pair(channel, wrapped[0])
    wrapped[0].close()
    channel.close()


def log_slice(folder: Path, content: bytes) -> FileSlice:
    """These bytes in the middle of a file."""
    path = folder / f"{len(list(folder.iterdir()))}.log"
    path.write_bytes(b"before" + content + b"after")
    file = FileSystem().open(str(path))
    found = FileSlice(file, len(b"before"), len(content))
    file.release()
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_slow_reader_gets_everything_in_order(pair: Pair, tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    sizes = (1, 100, RECORD - 1, RECORD, 3 * RECORD + 7)
    queue, expected = OutboundQueue(pair.channel), b""
    for _ in range(6):
        texts = [chance.randbytes(chance.choice(sizes)) for _ in range(3)]
        content = chance.randbytes(chance.choice((10, 20_000, 700_000)))
        parts: list[Part] = [*texts[:2], log_slice(tmp_path, content), texts[2]]
        expected += texts[0] + texts[1] + content + texts[2]
        queue.send(parts)
    received = bytearray()
    pair.client.setblocking(False)
    while len(received) < len(expected):
        if queue.cold is not None:
            queue.loaded()
        queue.flush()
        with contextlib.suppress(ssl.SSLWantReadError):
            received += pair.client.recv(chance.choice((1, 5000, 100_000)))
    assert queue.flush()
    assert bytes(received) == expected


def test_bytes_that_are_decrypted_already_are_pending(pair: Pair) -> None:
    pair.client.sendall(b"x" * 1000)
    assert pair.channel.receive_into(memoryview(bytearray(10))) == 10
    assert pair.channel.has_pending
    assert pair.channel.receive_into(memoryview(bytearray(5000))) == 990
    assert not pair.channel.has_pending


def test_a_large_frame_is_received_in_few_calls(pair: Pair) -> None:
    sent = threading.Thread(target=pair.client.sendall, args=(bytes(10 * RECORD),))
    sent.start()
    room, total = memoryview(bytearray(10 * RECORD)), 0
    while total < len(room):
        try:
            total += pair.channel.receive_into(room[total:])
        except BlockingIOError:
            continue
    sent.join()
    with pytest.raises(BlockingIOError):
        pair.channel.receive_into(room)


def test_small_records_of_a_frame_are_received_in_one_call(pair: Pair) -> None:
    # librdkafka sends two records of TLS for each of its own: ten bytes, and the value.
    sizes = [10, 100] * 20
    for size in sizes:
        pair.client.sendall(bytes(size))
    room = memoryview(bytearray(10_000))
    assert pair.channel.receive_into(room) == 10
    assert pair.channel.fill(room) == sum(sizes) - 10
    with pytest.raises(BlockingIOError):
        pair.channel.fill(room)


def test_a_call_does_not_decrypt_more_than_its_share(pair: Pair) -> None:
    sent = threading.Thread(target=pair.client.sendall, args=(bytes(3 * READ_AT_ONCE),))
    sent.start()
    room, received = memoryview(bytearray(3 * READ_AT_ONCE)), 0
    while received < len(room):
        with contextlib.suppress(BlockingIOError):
            count = pair.channel.fill(room)
            assert count <= READ_AT_ONCE
            received += count
    sent.join()


def test_the_end_of_the_client_is_the_end_of_its_bytes(pair: Pair) -> None:
    pair.client.setblocking(False)
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.recv(1)  # takes the tickets of TLS 1.3: a close that leaves bytes is a reset
    pair.client.close()
    assert pair.channel.receive_into(memoryview(bytearray(10))) == 0
