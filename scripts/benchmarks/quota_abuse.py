"""A client that offers twenty times its quota, and what its neighbour notices of it.

The abuser has four connections in a process of its own. Only the broker holds it back, as it does not
heed throttle times. What it is answered counts from its first request on, with the bursts that a quota
allows: one in eleven windows, and as many partitions as eleven windows bring. So the load takes a multiple of
these.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import ProduceRequest
from scripts.benchmarks.latency import LoneRecords
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentiles
from scripts.benchmarks.other_process import AtWork, running
from scripts.benchmarks.requests import PRODUCE_VERSION, batch, produce, set_quotas
from scripts.benchmarks.wire import ask, decoded, encoded
from tests.servers.probe import parse_address

PERIODS: Final = 3
WINDOWS: Final = 11
"""Those of a quota, of a second each."""
TIMES: Final = 20
"""How many times its quota the abuser offers."""
BYTE_RATE: Final = 1_000_000
PERCENTAGE: Final = 5
MUTATION_RATE: Final = 5

_CONNECTIONS: Final = 4
_BATCH: Final = 20_000
_FETCH_VERSION: Final = 11
_METADATA_VERSION: Final = 9
_METADATA_THROTTLE_TIME: Final = struct.Struct(">ixi")
"""The beginning of Metadata's answer: the correlation id, no tagged fields, the throttle time."""
_CREATE_VERSION: Final = 6
"""Since then, a client over its quota is refused and not only delayed."""
_TOPICS_AT_ONCE: Final = 5
_IDLE_SECONDS: Final = 5.0
"""How long the server is watched that nobody asks for anything."""

_QUOTAS: Final = {
    "produce": ("producer_byte_rate", BYTE_RATE),
    "fetch": ("consumer_byte_rate", BYTE_RATE),
    "request": ("request_percentage", PERCENTAGE),
    "mutations": ("controller_mutation_rate", MUTATION_RATE),
}
_OFFERED: Final = {
    "produce": (_BATCH, TIMES * BYTE_RATE),
    "fetch": (_BATCH, TIMES * BYTE_RATE),
    "mutations": (_TOPICS_AT_ONCE, TIMES * MUTATION_RATE),
}
"""What a request of each kind counts, and how much of that is offered in a second."""


def beside(
    kind: str, *, partitions: int = 1, same_partition: bool = False
) -> Callable[[Target, float], Figures]:
    """Load: one producer, without the abuser and beside it.

    The abuser's topic has so many partitions. The producer has another topic, or the same partition.
    """

    def run(target: Target, scale: float) -> Figures:
        windows = max(round(PERIODS * scale), 1) * WINDOWS
        topic = target.new_topic(partitions)
        _fill(target, topic)
        with target.connect() as connection:
            set_quotas(connection, _abuser(topic), dict([_QUOTAS[kind]]))
        records = LoneRecords(target.bootstrap_servers, topic if same_partition else target.new_topic(1))
        calm = records.produce_for(10 * scale)
        busy: list[float] = []

        def beside_it(is_over: Callable[[], bool]) -> None:
            busy.extend(records.produce_until(is_over))

        answered = _answered(target, topic, kind, windows, beside_it)
        figures = {**percentiles(busy), **percentiles(calm, " without it")}
        figures["times p99"] = figures["p99 ms"] / figures["p99 ms without it"]
        figures["longest throttle time, s"] = answered["throttle_ms"] / 1000
        if kind == "request":
            figures["requests/s"] = answered["amount"] / windows
            figures["share of a core, %"] = _share_of_a_core(target, topic, windows)
        else:
            figures["share of the quota"] = answered["amount"] / windows / _QUOTAS[kind][1]
        return figures

    return run


def _answered(
    target: Target, topic: str, kind: str, windows: int, meanwhile: Callable[[Callable[[], bool]], None]
) -> dict[str, int]:
    """What the abuser was answered; `meanwhile` works until the abuser has ended."""
    with running(_abuse, target.bootstrap_servers, topic, kind, windows) as process:
        meanwhile(process.has_ended)
        answered: dict[str, int] = process.result()
    return answered


def _share_of_a_core(target: Target, topic: str, windows: int) -> float:
    """The CPU time that the server spends on the abuser alone, in percent of one core."""
    idle = target.stopwatch()
    time.sleep(_IDLE_SECONDS)
    at_rest = idle.cost()
    watch = target.stopwatch()

    def wait(is_over: Callable[[], bool]) -> None:
        while not is_over():
            time.sleep(0.1)

    _answered(target, topic, "request", windows, wait)
    cost = watch.cost()
    share = cost.cpu_seconds / cost.seconds - at_rest.cpu_seconds / at_rest.seconds
    return share * 100


def _fill(target: Target, topic: str) -> None:
    with target.connect() as connection:
        for _ in range(2 * BYTE_RATE // _BATCH):
            ask(connection, _produce(topic, "bench"))


def _abuser(topic: str) -> str:
    """The client id of the abuser: a new one for each topic, so that it has used nothing."""
    return f"abuser-of-{topic}"


def _produce(topic: str, client_id: str) -> bytes:
    return encoded(produce(topic, batch(os.urandom(_BATCH)), acks=1), PRODUCE_VERSION, client_id)


def _fetch(topic: str) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=_BATCH + 1000)
    wanted = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=_BATCH + 1000, topics=wanted)
    return encoded(request, _FETCH_VERSION, _abuser(topic))


def _create(topic: str, number: int) -> bytes:
    """A request for new topics of one partition, whose names have the number."""
    topics = [
        CreatableTopic(name=f"{topic}-{number}-{each}", num_partitions=1, replication_factor=1)
        for each in range(_TOPICS_AT_ONCE)
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    return encoded(request, _CREATE_VERSION, _abuser(topic))


# --- in a process of its own --------------------------------------------------------------------------------


def _abuse(at_work: AtWork, bootstrap_servers: str, topic: str, kind: str, windows: int) -> dict[str, int]:
    """Offer TIMES the quota for so many windows; what was answered."""
    requests = {
        "produce": itertools.repeat(_produce(topic, _abuser(topic))),
        "fetch": itertools.repeat(_fetch(topic)),
        "request": itertools.repeat(encoded(MetadataRequest(topics=None), _METADATA_VERSION, _abuser(topic))),
        "mutations": map(partial(_create, topic), itertools.count()),
    }[kind]
    counted: Counter[str] = Counter()
    lock = threading.Lock()
    connections = [socket.create_connection(parse_address(bootstrap_servers)) for _ in range(_CONNECTIONS)]
    at_work.set()
    end = time.monotonic() + windows
    amount_each, rate = _OFFERED.get(kind, (0, 1))
    pause = _CONNECTIONS * amount_each / rate

    def offer(connection: socket.socket) -> None:
        due = time.monotonic()
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            with lock:
                request = next(requests)
            try:
                amount, throttle_ms = _read(kind, ask(connection, request), len(request) - 4)
            except TimeoutError:
                return
            with lock:
                counted["amount"] += amount
                counted["throttle_ms"] = max(counted["throttle_ms"], throttle_ms)
            due = max(due + pause, time.monotonic() - pause)
            time.sleep(max(due - time.monotonic(), 0))

    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        list(threads.map(offer, connections))
    return counted


def _read(kind: str, frame: bytes, sent: int) -> tuple[int, int]:
    """What an answer counts, and its throttle time."""
    if kind == "produce":
        produced = decoded(frame, ProduceRequest, PRODUCE_VERSION)
        if produced.responses[0].partition_responses[0].error_code:
            raise RuntimeError("a batch was refused")
        return sent, produced.throttle_time_ms
    if kind == "fetch":
        fetched = decoded(frame, FetchRequest, _FETCH_VERSION)
        data = [each for topic in fetched.responses for each in topic.partitions]
        nbytes = sum(len(each.records) for each in data if isinstance(each.records, (bytes, memoryview)))
        return nbytes, fetched.throttle_time_ms
    if kind == "mutations":
        created = decoded(frame, CreateTopicsRequest, _CREATE_VERSION)
        codes = Counter(each.error_code for each in created.topics)
        if codes.keys() - {ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED}:
            raise RuntimeError(f"topics were refused: {codes}")
        return codes[ErrorCode.NONE], created.throttle_time_ms
    _, throttle_ms = _METADATA_THROTTLE_TIME.unpack_from(frame)
    return 1, throttle_ms
