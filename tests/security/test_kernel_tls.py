"""TLS by the kernel: Python 3.12 or later, OpenSSL with kTLS, the module tls."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import IO

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkapy import Broker
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.network.channel import Handshake
from kafkapy.network.outbound import OutboundQueue
from kafkapy.network.tls_channel import RECORD, TlsChannel
from kafkapy.protocol.types import Part
from tests.network.raw_client import eventually
from tests.security.certificates import Certificates, trusting
from tests.security.listeners import Listeners
from tests.security.test_tls_channel import log_slice

_SUITES = {
    "TLSv1.3": (ssl.TLSVersion.TLSv1_3, None),
    "AES-128": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    "AES-256": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    "CHACHA20": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-CHACHA20-POLY1305"),
}


def _kernel_has_tls() -> bool:
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        stack.enter_context(server.accept()[0])
        try:
            client.setsockopt(socket.IPPROTO_TCP, 31, b"tls")  # TCP_ULP
        except OSError:
            return False
    return True


pytestmark = [
    pytest.mark.skipif(not hasattr(ssl, "OP_ENABLE_KTLS"), reason="Python before 3.12 has no kTLS"),
    pytest.mark.skipif(not _kernel_has_tls(), reason="this kernel's module tls is missing, or not loaded"),
]


def _accept(server: socket.socket, certificates: Certificates) -> TlsChannel:
    """The channel of the next client, whose handshake is done."""
    sock = server.accept()[0]
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | getattr(ssl, "OP_ENABLE_KTLS", 0)
    context.load_cert_chain(str(certificates.server))
    channel = TlsChannel(sock, context)
    while channel.handshake() is not Handshake.DONE:
        pass
    channel.handshake_pending = False
    return channel


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


@pytest.fixture(params=_SUITES)
def suite(request: pytest.FixtureRequest) -> tuple[ssl.TLSVersion, str | None]:
    return _SUITES[request.param]


def test_slices_reach_a_slow_reader_in_order_by_the_kernel(
    server: socket.socket,
    certificates: Certificates,
    suite: tuple[ssl.TLSVersion, str | None],
    tmp_path: Path,
) -> None:
    version, cipher = suite
    context = trusting(certificates)
    context.minimum_version = context.maximum_version = version
    if cipher is not None:
        context.set_ciphers(cipher)
    wrapped: list[ssl.SSLSocket] = []

    def connect() -> None:
        sock = socket.create_connection(server.getsockname())
        wrapped.append(context.wrap_socket(sock, server_hostname="127.0.0.1"))

    connecting = threading.Thread(target=connect)
    connecting.start()
    channel = _accept(server, certificates)
    connecting.join()
    client = wrapped[0]
    assert channel.encrypted_by_kernel
    chance = Random(1)
    queue, expected = OutboundQueue(channel), b""
    for _ in range(12):
        texts = [chance.randbytes(chance.choice((1, 100, RECORD, 3 * RECORD + 7))) for _ in range(3)]
        content = chance.randbytes(chance.choice((10, 20_000, 700_000)))
        parts: list[Part] = [*texts[:2], log_slice(tmp_path, content), texts[2]]
        expected += texts[0] + texts[1] + content + texts[2]
        queue.send(parts)
    received = bytearray()
    client.setblocking(False)
    while len(received) < len(expected):
        if queue.cold is not None:
            queue.loaded()
        queue.flush()
        with contextlib.suppress(ssl.SSLWantReadError):
            received += client.recv(chance.choice((1, 5000, 100_000)))
    assert queue.flush()
    assert bytes(received) == expected
    client.close()
    channel.close()


@pytest.mark.parametrize("command", ["k", "K"])
def test_a_client_that_exchanges_its_keys_gets_the_right_bytes_or_an_end(
    server: socket.socket, certificates: Certificates, tmp_path: Path, command: str
) -> None:
    # Java's clients do so after 128 GiB. With K the broker must exchange its own, too. Linux before 6.14
    # cannot, and the connection ends: OpenSSL 3.0 does not notice, and the client does.
    host, port = server.getsockname()
    program = ["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_3"]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        output, shown = client.stdout, bytearray()

        def read() -> None:
            while data := output.read1():  # type: ignore[attr-defined]
                shown.extend(data)

        channel = _accept(server, certificates)
        ended_by: str | None = None
        reading = threading.Thread(target=read)
        reading.start()
        try:
            for turn in range(1, 4):
                _exchange_keys(channel, client.stdin, command, partial(_has_exchanged, shown, turn))
                content = b"slice %d;" % turn * 40_000
                queue = OutboundQueue(channel)
                queue.send([b"answer", log_slice(tmp_path, content)])
                while not queue.flush():
                    if queue.cold is not None:
                        queue.loaded()
                answer = b"answer" + content
                eventually(partial(_is_over, reading, shown, answer), "the client gets the answer, or ends")
                if answer not in shown:
                    channel.receive_into(memoryview(bytearray(1)))  # raises what the client says of it
        except ssl.SSLError as error:
            ended_by = error.reason
        finally:
            channel.close()
            client.stdin.close()
            reading.join()
    by_client = ssl.OPENSSL_VERSION_INFO < (3, 2)
    assert ended_by in (None, "SSLV3_ALERT_BAD_RECORD_MAC" if by_client else "NO_SUITABLE_RECORD_LAYER")


@pytest.mark.parametrize(("send_buffer", "by_kernel"), [(-1, True), (102_400, True), (8192, False)])
def test_a_stock_client_reads_what_was_written(
    certificates: Certificates, send_buffer: int, by_kernel: bool
) -> None:
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "required",
        "socket.send.buffer.bytes": send_buffer,
    }
    chance = Random(send_buffer)
    values = [chance.randbytes(chance.choice((10, 1000, 100_000))) for _ in range(400)]
    with Broker(config=config) as broker:
        client = {
            "bootstrap.servers": Listeners(broker).address(SecurityProtocol.SSL),
            "security.protocol": "SSL",
            "ssl.ca.location": str(certificates.authority),
            "ssl.certificate.location": str(certificates.client),
            "ssl.key.location": str(certificates.client),
        }
        producer = Producer({**client, "linger.ms": 20})
        for value in values:
            producer.produce("records", value, partition=0)
        assert producer.flush(60) == 0
        before = _connections_by_kernel()
        consumer = Consumer({**client, "group.id": "readers"})
        consumer.assign([TopicPartition("records", 0, 0)])
        found: list[bytes] = []

        def is_read() -> bool:
            found.extend(message.value() for message in consumer.consume(500, 1.0))
            return len(found) >= len(values)

        eventually(is_read, "the records are read", 60)
        assert found == values
        consumer.close()
        assert (_connections_by_kernel() > before) == by_kernel


def _exchange_keys(channel: TlsChannel, client: IO[bytes], command: str, is_done: Callable[[], bool]) -> None:
    """Let s_client exchange its keys between two texts that the channel receives."""
    for text in (b"before\n", command.encode() + b"\n", b"after\n"):
        client.write(text)
        client.flush()
        if text.strip() == command.encode():
            eventually(is_done, "the client exchanges its keys")
        else:
            _expect(channel, text)


def _is_over(reading: threading.Thread, shown: bytearray, answer: bytes) -> bool:
    """Whether s_client has shown the answer, or will show no more."""
    return answer in shown or not reading.is_alive()


def _has_exchanged(shown: bytearray, times: int) -> bool:
    return shown.count(b"KEYUPDATE") == times


def _connections_by_kernel() -> int:
    """The connections whose sent bytes the kernel has encrypted since it started."""
    return next(
        int(line.split()[1])
        for line in Path("/proc/net/tls_stat").read_text().splitlines()
        if line.startswith("TlsTxSw")
    )


def _expect(channel: TlsChannel, text: bytes) -> None:
    room, received = memoryview(bytearray(1000)), b""

    def is_there() -> bool:
        nonlocal received
        with contextlib.suppress(BlockingIOError):
            received += bytes(room[: channel.receive_into(room)])
        return received == text

    eventually(is_there, f"{text!r} is received")
