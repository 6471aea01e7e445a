"""A live broker under random and broken requests of every API that it supports.

It neither dies nor loses its temper.

No request may make a handler fail in a way it did not foresee (a traceback in the log), create anything
outside the data directory, or keep other clients waiting.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy import handlers
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.network.attacked_broker import ALL, AttackedBroker
from tests.network.raw_client import DEADLINE, api_versions, correlation_ids
from tests.network.test_attacks import Watch
from tests.protocol.random_messages import random_message
from tests.security.certificates import Certificates

FRAMES = int(os.environ.get("KAFKAPY_FUZZ_FRAMES", "2000"))
CLIENTS = 16
"""Those that attack at the same time, so that nobody waits for answers that do not come."""
PATIENCE = 0.02
"""How long a client waits for one, in seconds."""

HOSTILE_NAMES = (
    *("", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", "x" * 249, "x" * 250, "x" * 30_000),
    *("a-0.0123456789abcdef0123456789abcdef-delete", "ünï", "a.b", "a_b", "t", "__consumer_offsets"),
)


@pytest.fixture(params=ALL, ids=str)
def broker(
    request: pytest.FixtureRequest, tmp_path: Path, certificates: Certificates
) -> Iterator[AttackedBroker]:
    settings = {"offsets.topic.num.partitions": "1"}
    with AttackedBroker(tmp_path / "home", certificates, request.param, settings) as process:
        with process.friend() as client:
            topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[topic]), 5)
        yield process


def random_request(rng: random.Random) -> bytes:
    api = rng.choice(handlers.APIS)
    version = rng.randint(api.min_version, api.max_version)
    message = random_message(rng, request_class(api.key), version)
    haunt(message, rng)
    return encode_request(message, version, rng.randrange(1 << 31), "fuzz")


def haunt(message: object, rng: random.Random) -> None:
    """Give strings hostile values, numbers edge values, and waits short ones, here and there."""
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if isinstance(value, list):
            for item in value:
                haunt(item, rng)
        elif isinstance(value, str) and value and rng.random() < 0.7:
            setattr(message, name, rng.choice(HOSTILE_NAMES))
        elif name in ("max_wait_ms", "timeout_ms", "rebalance_timeout_ms", "session_timeout_ms") and value:
            setattr(message, name, rng.choice((0, 1, 50)))
        elif hasattr(value, "__slots__") and not isinstance(value, TopMessage):
            haunt(value, rng)


def broken(frame: bytes, rng: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(8 if rng.random() < 0.1 else 12, max(13, len(data)))
        action = rng.random()
        if action < 0.5 and position < len(data):
            data[position] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif action < 0.75:
            del data[position : position + rng.randint(1, 8)]
        else:
            data[position:position] = rng.randbytes(rng.randint(1, 8))
    if rng.random() < 0.9:
        data[:4] = (len(data) - 4).to_bytes(4, "big")
    return bytes(data)


class Attacker:
    """A client that sends one frame after another, whether they are answered or not."""

    def __init__(self, broker: AttackedBroker) -> None:
        self._broker = broker
        self._client = broker.client()
        self._may_be_answered_until: float | None = None

    def send(self, frame: bytes, *, is_last: bool) -> None:
        """Send a frame when the one before is answered, or has had its time.

        After the last frame of a connection, or without an answer, there is a new connection.
        """
        if not self._is_answered():
            self._come_again()
        with contextlib.suppress(ConnectionError, TimeoutError, ssl.SSLError):
            self._client.send(frame)
            self._may_be_answered_until = time.monotonic() + PATIENCE
            if not is_last:
                return
        self._come_again()

    def _is_answered(self) -> bool:
        if self._may_be_answered_until is None:
            return True
        left = self._may_be_answered_until - time.monotonic()
        self._client.socket.settimeout(max(left, 0.0001))
        with contextlib.suppress(ConnectionError, TimeoutError, ssl.SSLError):
            self._client.socket.recv(1 << 20)
            self._client.socket.settimeout(DEADLINE)
            return True
        return False

    def _come_again(self) -> None:
        self.close()
        self._client = self._broker.client()
        self._may_be_answered_until = None

    def close(self) -> None:
        self._client.close()


@pytest.mark.parametrize("seed", [random.randrange(1 << 32)], ids=["seed"])
def test_no_request_surprises_the_broker(broker: AttackedBroker, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with Watch(broker) as watch:
        attackers = [Attacker(broker) for _ in range(CLIENTS)]
        for _, attacker in zip(range(broker.share(FRAMES)), itertools.cycle(attackers), strict=False):
            frame = random_request(rng)
            if rng.random() < 0.5:
                frame = broken(frame, rng)
            attacker.send(frame, is_last=rng.random() < 0.2)
        for attacker in attackers:
            attacker.close()
    watch.check()
    with broker.client() as client:
        client.send(api_versions())
        if broker.kind.protocol == "PLAINTEXT":  # TLS knows no half of a connection
            client.socket.shutdown(socket.SHUT_WR)
        assert correlation_ids(client, 1) == [7]
    log = broker.log_path.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 300 :][:3000]
    assert broker.stop() == 0
    assert {path.name for path in tmp_path.iterdir()} == {"home"}
    assert {path.name for path in (tmp_path / "home").iterdir()} == {"data", "server.out"}
