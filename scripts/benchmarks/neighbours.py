"""What one producer's acknowledgements take while others keep the server busy.

Also how long the producer stalls. The others are a process of their own (`python -m
scripts.benchmarks.neighbours KIND ADDRESS TOPIC`), which says that it is at work and goes on until its
standard input ends.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.records import Record, build_batch
from scripts.benchmarks.latency import acknowledgements
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentile
from scripts.benchmarks.probe import INTERVAL_SECONDS, Probe
from scripts.benchmarks.wire import ask

_BOMBERS: Final = 40
_BOMB_BYTES: Final = 80 << 20
"""More than a batch may decompress to by default: 80 KB on the wire, refused when the limit is reached."""

_WIDE: Final = 200
_NEW: Final = 500
"""Partitions of each new topic."""
_VERSION: Final = 9

_SEARCHED: Final = 1_000_000
"""Records of the batch in which times are looked for: less than 1 MB, compressed."""
_MAX_TIMESTAMP: Final = -3
_MAX_TIMESTAMP_VERSION: Final = 7


def beside_bombs(target: Target, scale: float) -> Figures:
    """Load: forty connections send gzip bombs, one producer ordinary records."""
    return _beside("bombs", target, scale, 1)


def beside_a_wide_producer(target: Target, scale: float) -> Figures:
    """Load: one connection writes to 200 partitions in each request, one producer to one other."""
    return _beside("wide", target, scale, _WIDE)


def beside_topic_creation(target: Target, scale: float) -> Figures:
    """Load: topics are created and deleted while one producer writes to another topic.

    Topics of 500 partitions are made, written to and deleted without a pause.
    """
    return _beside("topics", target, scale, 1)


def beside_all(target: Target, scale: float) -> Figures:
    """Load: all of these at once, and searches by time in a batch of a million records.

    One connection asks for ApiVersions every two milliseconds. Its longest answer is the longest stall.
    """
    probe = Probe(target.server.address)
    with contextlib.ExitStack() as others:
        for kind, partitions in (("bombs", 1), ("wide", _WIDE), ("topics", 1), ("searches", 1)):
            topic = target.new_topic(partitions)
            others.enter_context(_others(kind, target.bootstrap_servers, topic))
        times, end = [], time.monotonic() + 10 * scale
        while time.monotonic() < end:
            time.sleep(INTERVAL_SECONDS)
            times.append(probe.ask())
    probe.close()
    return {
        "p50 ms": percentile(times, 0.5) * 1000,
        "p99 ms": percentile(times, 0.99) * 1000,
        "longest stall, ms": max(times) * 1000,
    }


def _beside(kind: str, target: Target, scale: float, partitions: int) -> Figures:
    topic = target.new_topic(1)
    calm = acknowledgements(target.bootstrap_servers, topic, seconds=2 * scale)
    with _others(kind, target.bootstrap_servers, target.new_topic(partitions)):
        busy = acknowledgements(target.bootstrap_servers, topic, seconds=10 * scale)
    return {
        "p50 ms": percentile(busy, 0.5) * 1000,
        "p99 ms": percentile(busy, 0.99) * 1000,
        "longest, ms": max(busy) * 1000,
        "p50 ms without them": percentile(calm, 0.5) * 1000,
        "p99 ms without them": percentile(calm, 0.99) * 1000,
    }


@contextlib.contextmanager
def _others(kind: str, bootstrap_servers: str, topic: str) -> Iterator[None]:
    command = [sys.executable, "-m", "scripts.benchmarks.neighbours", kind, bootstrap_servers, topic]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"the {kind} did not start")
        try:
            yield
        finally:
            process.stdin.close()
            process.kill()


# --- the others ---------------------------------------------------------------------------------------------


def _bombs(bootstrap_servers: str, topic: str) -> None:
    bomb = _request(
        topic, bytes(build_batch([Record(value=bytes(_BOMB_BYTES))], compression=Compression.GZIP))
    )
    for _ in range(_BOMBERS):
        threading.Thread(target=_repeat, args=(bootstrap_servers, bomb), daemon=True).start()


def _wide(bootstrap_servers: str, topic: str) -> None:
    request = _request(topic, *[bytes(build_batch([Record(value=b"x" * 100)]))] * _WIDE)
    with _connection(bootstrap_servers) as connection:
        ask(connection, request)
    threading.Thread(target=_repeat, args=(bootstrap_servers, request), daemon=True).start()


def _repeat(bootstrap_servers: str, request: bytes) -> None:
    with _connection(bootstrap_servers) as connection:
        while True:
            ask(connection, request)


def _topics(bootstrap_servers: str, _topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    batch = bytes(build_batch([Record(value=b"x" * 100)]))
    connection = _connection(bootstrap_servers)

    def create() -> None:
        for round_ in itertools.count():
            name = f"beside-{os.getpid()}-{round_}"
            admin.create_topics([NewTopic(name, _NEW, 1)])[name].result(60)
            ask(connection, _request(name, *[batch] * _NEW))
            admin.delete_topics([name])[name].result(60)

    threading.Thread(target=create, daemon=True).start()


def _searches(bootstrap_servers: str, topic: str) -> None:
    records = [Record(timestamp=1, value=b"")] * _SEARCHED
    batch = bytes(build_batch(records, compression=Compression.ZSTD))
    with _connection(bootstrap_servers) as connection:
        ask(connection, _request(topic, batch))
    for timestamp in (1, _MAX_TIMESTAMP):
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        data = encode_request(request, _MAX_TIMESTAMP_VERSION, 7, "bench")
        threading.Thread(target=_repeat, args=(bootstrap_servers, data), daemon=True).start()


def _request(topic: str, *batches: bytes) -> bytes:
    data = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return encode_request(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), _VERSION, 7, "bench")


def _connection(bootstrap_servers: str) -> socket.socket:
    host, _, port = bootstrap_servers.rpartition(":")
    return socket.create_connection((host, int(port)))


_KINDS: Final[dict[str, Callable[[str, str], None]]] = {
    "bombs": _bombs,
    "wide": _wide,
    "topics": _topics,
    "searches": _searches,
}


if __name__ == "__main__":
    _KINDS[sys.argv[1]](sys.argv[2], sys.argv[3])
    print("at work", flush=True)
    while os.read(0, 1):
        pass
    os._exit(0)
