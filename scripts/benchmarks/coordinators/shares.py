"""Members of a share group at work: they fetch records and say what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from kafkapy.configs.kind import ResourceType
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.many_partitions import produce_to_each
from scripts.benchmarks.requests import set_config

_PARTITIONS = 6
_MEMBERS = 4
_RECORDS = 300_000
_BATCH = 50
_RECORD_BYTES = 100
_REJECTED = 10
"""Each record whose offset is a multiple of it is rejected by members that acknowledge explicitly."""
_PATIENCE = 120.0

PROPERTIES = {
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
}


def sharing(mode: str) -> Callable[[Target, float], Figures]:
    """Load: four members of a share group read six partitions.

    They share 300,000 records of 100 bytes, in batches of 50.

    With the mode `implicit` a member accepts all records of a poll by the next one. With `explicit` it
    accepts or rejects each, and waits after each poll until that is stored.
    """

    def run(target: Target, scale: float) -> Figures:
        topic = target.new_topic(_PARTITIONS)
        group = f"group of {topic}"
        with target.connect() as connection:
            set_config(connection, ResourceType.GROUP, group, "share.auto.offset.reset", "earliest")
        take = {"implicit": _take, "explicit": _take_and_say}[mode]
        with _members(target.bootstrap_servers, group, mode, topic) as members:
            _wait_until_all_work(target.bootstrap_servers, topic, members, take)
            each = max(int(_RECORDS * scale / _PARTITIONS / _BATCH), 1) * _BATCH
            settings = {"batch.num.messages": _BATCH}
            produce_to_each(target.bootstrap_servers, {topic: _PARTITIONS}, each, _RECORD_BYTES, **settings)
            records = each * _PARTITIONS
            watch = target.stopwatch()
            _take_all(members, take, records)
            cost = watch.cost()
        return {
            "records/s": records / cost.seconds,
            "CPU µs/record": cost.cpu_seconds / records * 1e6,
        }

    return run


@contextmanager
def _members(bootstrap_servers: str, group: str, mode: str, topic: str) -> Iterator[Sequence[ShareConsumer]]:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "share.acknowledgement.mode": mode,
        "log_level": 0,
    }
    members = [ShareConsumer(settings) for _ in range(_MEMBERS)]
    try:
        for member in members:
            member.subscribe([topic])
        yield members
    finally:
        with ThreadPoolExecutor(_MEMBERS) as threads:
            list(threads.map(ShareConsumer.close, members))


_Take = Callable[[ShareConsumer, float], int]
"""Lets a member poll so many seconds at most; how many records it was given."""


def _take(member: ShareConsumer, seconds: float) -> int:
    return len(_polled(member, seconds))


def _take_and_say(member: ShareConsumer, seconds: float) -> int:
    messages = _polled(member, seconds)
    if messages:
        for message in messages:
            rejected = message.offset() % _REJECTED == 0
            member.acknowledge(message, AcknowledgeType.REJECT if rejected else AcknowledgeType.ACCEPT)
        for error in member.commit_sync(60).values():
            if error is not None:
                raise error
    return len(messages)


def _polled(member: ShareConsumer, seconds: float) -> list[Message]:
    messages = list(member.poll(seconds))
    for message in messages:
        error = message.error()
        if error is not None and not error.retriable():
            raise RuntimeError(str(error))
    return [message for message in messages if message.error() is None]


def _wait_until_all_work(
    bootstrap_servers: str, topic: str, members: Sequence[ShareConsumer], take: _Take
) -> None:
    """Write records to all partitions until each member was given some, and all are taken."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "log_level": 0})
    given = [0] * len(members)
    written, deadline = 0, time.monotonic() + _PATIENCE
    while not all(given) or sum(given) < written:
        if not all(given):
            for partition in range(_PARTITIONS):
                producer.produce(topic, b"x", partition=partition)
            producer.flush(30)
            written += _PARTITIONS
        for number, member in enumerate(members):
            given[number] += take(member, 0.05)
        if time.monotonic() > deadline:
            raise RuntimeError(f"of {written} records members were given {given}")


def _take_all(members: Sequence[ShareConsumer], take: _Take, records: int) -> None:
    """Let the members take so many records, each in a thread of its own."""
    given, deadline = [0] * len(members), time.monotonic() + _PATIENCE

    def work(number: int) -> None:
        while sum(given) < records:
            given[number] += take(members[number], 0.2)
            if time.monotonic() > deadline:
                raise RuntimeError(f"of {records} records members were given {given}")

    with ThreadPoolExecutor(len(members)) as threads:
        list(threads.map(work, range(len(members))))
