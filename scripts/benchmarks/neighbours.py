"""What one producer's acknowledgements take while others keep the server busy.

Also how long the producer stalls. The others are a process of their own.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.records import Record, build_batch
from scripts.benchmarks.latency import LoneRecords
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentiles
from scripts.benchmarks.other_process import AtWork, running
from scripts.benchmarks.probe import probing
from scripts.benchmarks.requests import PRODUCE_VERSION, batch, produce
from scripts.benchmarks.wire import ask, encoded
from tests.servers.probe import parse_address

_BOMBERS: Final = 40
_BOMB_BYTES: Final = 80 << 20
"""More than a batch may decompress to by default: 80 KB on the wire, refused when the limit is reached."""

_WIDE: Final = 200
_NEW: Final = 500
"""Partitions of each new topic."""

_SEARCHED: Final = 1_000_000
"""Records of the batch in which times are looked for: less than 1 MB, compressed."""
_MAX_TIMESTAMP: Final = -3
_MAX_TIMESTAMP_VERSION: Final = 7


def beside(others: str) -> Callable[[Target, float], Figures]:
    """Load: one producer, without the others and beside them."""

    def run(target: Target, scale: float) -> Figures:
        work, partitions = _OTHERS[others]
        records = LoneRecords(target.bootstrap_servers, target.new_topic(1))
        calm = records.produce_for(2 * scale)
        with running(work, target.bootstrap_servers, target.new_topic(partitions)):
            busy = records.produce_for(10 * scale)
        return {**percentiles(busy), **percentiles(calm, " without them")}

    return run


def beside_all(target: Target, scale: float) -> Figures:
    """Load: all of the others at once, and a probe of the event loop."""
    with ExitStack() as stack:
        for work, partitions in _OTHERS.values():
            stack.enter_context(running(work, target.bootstrap_servers, target.new_topic(partitions)))
        times = stack.enter_context(probing(target.server.address))
        time.sleep(10 * scale)
    return {**percentiles(times), "longest stall, ms": max(times) * 1000}


# --- the others, each in a process --------------------------------------------------------------------------


def send_bombs(at_work: AtWork, bootstrap_servers: str, topic: str) -> None:
    """Forty connections send gzip bombs."""
    bomb = build_batch([Record(value=bytes(_BOMB_BYTES))], compression=Compression.GZIP)
    _repeat(at_work, bootstrap_servers, [_produce(topic, bytes(bomb))] * _BOMBERS)


def send_wide_requests(at_work: AtWork, bootstrap_servers: str, topic: str) -> None:
    """One connection writes to 200 partitions in each request."""
    _repeat(at_work, bootstrap_servers, [_produce(topic, *[batch(b"x" * 100)] * _WIDE)])


def search_times(at_work: AtWork, bootstrap_servers: str, topic: str) -> None:
    """Two connections search by time in a batch of a million records."""
    records = [Record(timestamp=1, value=b"")] * _SEARCHED
    searched = bytes(build_batch(records, compression=Compression.ZSTD))
    with _connection(bootstrap_servers) as connection:
        ask(connection, _produce(topic, searched))
    requests = []
    for timestamp in (1, _MAX_TIMESTAMP):
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
        requests.append(encoded(ListOffsetsRequest(replica_id=-1, topics=topics), _MAX_TIMESTAMP_VERSION))
    _repeat(at_work, bootstrap_servers, requests)


def create_topics(at_work: AtWork, bootstrap_servers: str, _topic: str) -> None:
    """Topics of 500 partitions are made, written to and deleted without a pause."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    connection = _connection(bootstrap_servers)
    at_work.set()
    for round_ in itertools.count():
        name = f"beside-{os.getpid()}-{round_}"
        admin.create_topics([NewTopic(name, _NEW, 1)])[name].result(60)
        ask(connection, _produce(name, *[batch(b"x" * 100)] * _NEW))
        admin.delete_topics([name])[name].result(60)


_OTHERS: Final[dict[str, tuple[Callable[[AtWork, str, str], None], int]]] = {
    "bombs": (send_bombs, 1),
    "wide": (send_wide_requests, _WIDE),
    "topics": (create_topics, 1),
    "searches": (search_times, 1),
}
"""The others by name, and how many partitions their topic has."""


def _repeat(at_work: AtWork, bootstrap_servers: str, requests: list[bytes]) -> None:
    """Send each of the requests over a connection of its own, again and again."""

    def send(request: bytes) -> None:
        with _connection(bootstrap_servers) as connection:
            while True:
                ask(connection, request)

    for request in requests:
        threading.Thread(target=send, args=(request,), daemon=True).start()
    at_work.set()
    signal.pause()


def _produce(topic: str, *batches: bytes) -> bytes:
    return encoded(produce(topic, *batches), PRODUCE_VERSION)


def _connection(bootstrap_servers: str) -> socket.socket:
    return socket.create_connection(parse_address(bootstrap_servers))
