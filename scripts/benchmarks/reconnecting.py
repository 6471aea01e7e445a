"""Ten thousand clients that come back after a restart.

All of them connect at once, from a process of their own that does little else: sockets that do not block, and
epoll. Each asks for ApiVersions and then for Metadata, as client libraries do first. It is served when it has
both answers. A connection that is refused or reset is tried again.
"""

from __future__ import annotations

import errno
import resource
import select
import socket
import time
from collections import deque
from pathlib import Path
from typing import Final

from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.other_process import AtWork, running
from scripts.benchmarks.servers import new_server
from scripts.benchmarks.wire import API_VERSIONS, encoded

CLIENTS: Final = 10_000
PER_ADDRESS: Final = 1_000
"""kafkapy takes 2,000 connections from one address by default: the clients have addresses of their own."""
ROOM: Final = {"max.connections": "11000", "log.max.open.files": "2000"}
"""kafkapy takes 10,000 connections by default, and fewer if the limit of open files is 20,000."""
CONNECTS_AT_ONCE: Final = 100
RETRY_SECONDS: Final = 0.05
SECONDS: Final = 120
TOPIC: Final = "bench"
ANSWERS_EACH: Final = 2
IP_BIND_ADDRESS_NO_PORT: Final = 24
"""Linux; the module socket does not name it."""


def reconnecting(name: str, folder: Path) -> Figures:
    """Load: start a server with a topic, stop it, start it again, and let the clients come."""
    server = new_server(name, folder, ROOM if name.startswith("kafkapy") else None)
    target = Target(server)
    with server:
        target.new_topic(6)
    with server:
        watch = target.stopwatch()
        with running(_come_back, *server.address) as process:
            clients = process.result()
        cost = watch.cost().cpu_seconds
    return {
        "all are served, s": clients["seconds"],
        "half are served, s": clients["half"],
        "CPU µs/client": cost / CLIENTS * 1e6,
        "CPU µs of the client itself": clients["cpu_seconds"] / CLIENTS * 1e6,
        "connections that failed": clients["failed"],
    }


# --- in a process of its own --------------------------------------------------------------------------------


class _Client:
    """One client, and how far it is."""

    __slots__ = ("answers", "is_connected", "missing", "number", "socket")

    def __init__(self, number: int) -> None:
        self.number = number
        self.socket: socket.socket
        self.is_connected = False
        self.answers = 0
        self.missing = b""
        """The bytes of an answer that has not arrived as a whole."""


class _Clients:
    """All clients; `run` returns when each is served."""

    def __init__(self, host: str, port: int, count: int) -> None:
        self._address = (host, port)
        self._epoll = select.epoll()
        self._clients: dict[int, _Client] = {}
        self._to_connect = deque(_Client(number) for number in range(count))
        self._metadata = encoded(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
        self._count = count
        self.failed = 0
        self.served_at: list[float] = []

    def run(self) -> None:
        deadline = time.perf_counter() + SECONDS
        retry_at = 0.0
        while len(self.served_at) < self._count:
            now = time.perf_counter()
            if now > deadline:
                raise TimeoutError(f"{len(self.served_at)} of {self._count} clients are served")
            if now >= retry_at:
                for _ in range(min(CONNECTS_AT_ONCE, len(self._to_connect))):
                    failed = self.failed
                    self._connect(self._to_connect.popleft())
                    if self.failed > failed:
                        retry_at = now + RETRY_SECONDS
                        break
            for fd, _ in self._epoll.poll(0 if self._to_connect else 1):
                self._go_on(self._clients[fd])

    def _connect(self, client: _Client) -> None:
        sock = client.socket = socket.socket()
        sock.setblocking(False)
        # The port is chosen when it connects: a bound address has too few for all of them.
        sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        sock.bind((f"127.0.1.{1 + client.number // PER_ADDRESS}", 0))
        if sock.connect_ex(self._address) not in (0, errno.EINPROGRESS):
            self._again(client)
            return
        self._clients[sock.fileno()] = client
        self._epoll.register(sock.fileno(), select.EPOLLOUT)

    def _go_on(self, client: _Client) -> None:
        try:
            if not client.is_connected:
                client.is_connected = True
                client.socket.sendall(API_VERSIONS)
                self._epoll.modify(client.socket.fileno(), select.EPOLLIN)
                return
            data = client.missing + client.socket.recv(65536)
        except OSError:
            self._again(client)
            return
        if len(data) == len(client.missing):  # the end of the stream
            self._again(client)
        elif len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            client.missing = data
        else:
            client.missing = b""
            client.answers += 1
            if client.answers == ANSWERS_EACH:
                self.served_at.append(time.perf_counter())
            else:
                client.socket.sendall(self._metadata)

    def _again(self, client: _Client) -> None:
        self._clients.pop(client.socket.fileno(), None)
        client.socket.close()
        self.failed += 1
        self._to_connect.append(_Client(client.number))


def _come_back(at_work: AtWork, host: str, port: int) -> Figures:
    """Let all clients come.

    Returns when all and half of them are served, their CPU seconds, and how many connections failed.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    clients = _Clients(host, port, CLIENTS)
    at_work.set()
    cpu, start = time.process_time(), time.perf_counter()
    clients.run()
    served_at = clients.served_at
    return {
        "seconds": served_at[-1] - start,
        "half": served_at[len(served_at) // 2] - start,
        "cpu_seconds": time.process_time() - cpu,
        "failed": clients.failed,
    }
