"""How long a view of the page takes, and what it costs the broker.

scripts/bench page [--partitions 10000] [--records 10000000] [--rounds 15]

A broker (durability=os) gets topics of ten partitions, a group that has offsets in all of them, and one topic
with many records of JSON, some 100 bytes each. `kafkapy page` shows it in a process of its own. Each view is
asked for by one client, one round after the other. The figures are the median and the longest time by the
clock, and the means of the CPU time of the page and of the broker. A probe asks the broker for ApiVersions
every 2 ms meanwhile: its longest wait is what a view costs another client.
"""

from __future__ import annotations

import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.many_partitions import create
from scripts.benchmarks.meter import Meter
from scripts.benchmarks.probe import probing
from scripts.benchmarks.rows import flush_rows, produce_rows, row_producer
from scripts.benchmarks.servers import new_server
from scripts.benchmarks.table import aligned
from tests.servers.server_process import ServerProcess

_TOPIC_PARTITIONS: Final = 10
_LARGE: Final = "large"
_AT_A_TIME: Final = 10_000
_GROUP: Final = "billing"
_RARE: Final = 997
"""One record in so many has the mark that a view filters by."""


def _fill(bootstrap_servers: str, records: int) -> str:
    """The records of the large topic, in turn to its partitions.

    Returns the time when half of them were written.
    """
    producer = row_producer(bootstrap_servers, linger_ms=5)
    half = ""
    for first in range(0, records, _AT_A_TIME):
        if first <= records // 2:
            half = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        numbers = range(first, min(first + _AT_A_TIME, records))
        rows = [{"key": f"customer-{number % 1000}", "value": _value(number)} for number in numbers]
        produce_rows(producer, _LARGE, first // _AT_A_TIME % _TOPIC_PARTITIONS, rows)
    flush_rows(producer)
    return half


def _value(number: int) -> bytes:
    customer = {"id": number % 1000, "note": "so many words"}
    return json.dumps({"id": number, "rare": number % _RARE == 0, "customer": customer}).encode()


def _commit(bootstrap_servers: str, topics: Sequence[str]) -> None:
    """Offsets of the group in all partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": _GROUP})
    for topic in topics:
        places = [TopicPartition(topic, partition, 0) for partition in range(_TOPIC_PARTITIONS)]
        consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


@contextmanager
def _page(bootstrap_servers: str) -> Iterator[tuple[int, str]]:
    """The page: its process and its address."""
    command = [sys.executable, "-m", "kafkapy", "page", "--listen", "127.0.0.1:0"]
    command += ["--bootstrap-server", bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            yield process.pid, next(word for word in words if word.startswith("http://")).rstrip("/")
        finally:
            process.terminate()


def _views(records: int, half: str) -> dict[str, str]:
    """The address of each view by its name; `half` is a time that some records have."""
    middle = records // _TOPIC_PARTITIONS // 2
    messages = f"/topics/{_LARGE}/messages"
    return {
        "topics": "/topics",
        "topics that contain 77": "/topics?name=77",
        "a topic": f"/topics/{_LARGE}",
        "newest messages": messages,
        "oldest messages": f"{messages}?from=oldest",
        "from an offset": f"{messages}?from=offset&at={middle}",
        "from a time": f"{messages}?from=time&at={half}",
        "with a condition": f"{messages}?from=oldest&where=rare%3Dtrue&limit=5",
        "one message": f"/topics/{_LARGE}/0/{middle}",
        "groups": "/groups",
        "a group": f"/group?name={_GROUP}",
        "transactions": "/transactions",
        "cluster": "/cluster",
        "settings of a topic": f"/topics/{_LARGE}/configs",
    }


def _get(url: str) -> bytes:
    """A view; raises RuntimeError with its address if the page refuses it."""
    try:
        with urllib.request.urlopen(url) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{url}: {error}") from error


def _measured(name: str, url: str, rounds: int, page: Meter, broker: ServerProcess) -> list[str]:
    """The row of one view."""
    served = Meter(broker.pid)
    seconds = []
    size = len(_get(url))  # what a first view loads does not count
    with probing(broker.address) as waits:
        page_cpu, broker_cpu = page.cpu_seconds(), served.cpu_seconds()
        for _ in range(rounds):
            begun = time.perf_counter()
            _get(url)
            seconds.append(time.perf_counter() - begun)
        page_cpu, broker_cpu = page.cpu_seconds() - page_cpu, served.cpu_seconds() - broker_cpu
    figures = [statistics.median(seconds), max(seconds), page_cpu / rounds, broker_cpu / rounds, max(waits)]
    return [name, *(f"{figure * 1000:,.0f}" for figure in figures), f"{size / 1000:,.0f}"]


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args(options)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        new_server("kafkapy", Path(folder)) as broker,
    ):
        count = max(arguments.partitions // _TOPIC_PARTITIONS - 1, 1)
        sizes = {_LARGE: _TOPIC_PARTITIONS, **{f"topic-{n}": _TOPIC_PARTITIONS for n in range(count)}}
        create(broker.bootstrap_servers, sizes)
        _commit(broker.bootstrap_servers, list(sizes))
        half = _fill(broker.bootstrap_servers, arguments.records)
        with _page(broker.bootstrap_servers) as (pid, url):
            meter = Meter(pid)
            rows = [
                _measured(name, url + path, arguments.rounds, meter, broker)
                for name, path in _views(arguments.records, half).items()
            ]
            memory = meter.resident_mb()
    print(f"{count + 1:,} topics, {arguments.records:,} records; the page has {memory:,.0f} MB")
    heads = ["view", "ms", "at most", "CPU of page, ms", "of broker, ms", "probe waits, ms", "kB"]
    print(aligned(heads, rows))
    return 0
