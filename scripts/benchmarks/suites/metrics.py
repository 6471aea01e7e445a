"""What metrics, quotas and the log of requests cost, and a scrape of many partitions.

scripts/bench metrics [--rounds 20] [--requests 5000] [--records 1] [--partitions 10000]

Brokers run beside each other (durability=os): two plain ones, one with metrics, one with a quota that another
client has, and one that logs all requests. A client sends Produce requests with one small record, or with
`--records` of 1 KiB, to one after the other, each of them when the last one is answered, so that a request
has all of its cost. The figures are medians over the rounds, and a ratio is that to the plain broker in the
same round; a busy machine disturbs both. What metrics add to a request is measured alone as well, and so are
the tests for quotas where there are none.

Then another broker gets partitions and is scraped, with gzip as Prometheus does. A probe asks it for
ApiVersions every 2 ms meanwhile: the longest wait is what a scrape costs a client.
"""

from __future__ import annotations

import random
import socket
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from kafkapy.configs.kind import ResourceType
from kafkapy.inter_broker.loopback import LoopbackConnection
from kafkapy.logs import REQUESTS
from kafkapy.network.request_metrics import RequestMetrics
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkapy.replicas.topic_traffic import TopicTraffic
from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.load import Target
from scripts.benchmarks.many_partitions import create, topic_sizes
from scripts.benchmarks.probe import probing
from scripts.benchmarks.request_cost import request_cost
from scripts.benchmarks.requests import PRODUCE_VERSION, batch, produce, set_config, set_quotas
from scripts.benchmarks.servers import new_server
from scripts.benchmarks.table import aligned
from tests.ports import free_ports

_TOPIC: Final = "bench-0"
_TOPIC_SIZE: Final = 1000
_SCRAPES: Final = 5
_TESTS: Final = tuple(range(5))
"""One for each place of network/in_flight.py that a Produce request passes which waits for a disk."""


def _produce_cost(target: Target, records: int, requests: int) -> float:
    """The microseconds of CPU time that a Produce request costs the broker."""
    values = [b"x" * 100] if records == 1 else [b"x" * 1024] * records
    return request_cost(target, produce(_TOPIC, batch(*values)), PRODUCE_VERSION, requests)


def _limit_another(connection: socket.socket) -> None:
    """Give another client than the one of the benchmark a quota."""
    set_quotas(connection, "another", {"producer_byte_rate": 1e9, "request_percentage": 1e9})


def _log_requests(connection: socket.socket) -> None:
    set_config(connection, ResourceType.BROKER_LOGGER, "1", REQUESTS.name, "DEBUG")


def _compare(folder: Path, rounds: int, requests: int, records: int) -> list[list[str]]:
    (port,) = free_ports(1)
    prepared: dict[str, Callable[[socket.socket], None]] = {
        "plain": lambda connection: None,
        "plain again": lambda connection: None,
        "with metrics": lambda connection: None,
        "with quotas of others": _limit_another,
        "with all requests logged": _log_requests,
    }
    with ExitStack() as stack:
        targets = {}
        for name, prepare in prepared.items():
            properties = {"metrics.port": str(port)} if name == "with metrics" else {}
            target = Target(stack.enter_context(new_server("kafkapy", folder / name, properties)))
            targets[name] = target
            create(target.bootstrap_servers, {_TOPIC: 1})
            with target.connect() as connection:
                prepare(connection)
            _produce_cost(target, records, requests)
        taken: dict[str, list[float]] = {name: [] for name in prepared}
        for _ in range(rounds):
            for name in random.sample(list(prepared), len(prepared)):
                # Into the caches of the CPU first.
                _produce_cost(targets[name], records, requests // 8)
                taken[name].append(_produce_cost(targets[name], records, requests))
    rows = []
    for name, each in taken.items():
        ratio = statistics.median(one / plain for one, plain in zip(each, taken["plain"], strict=True))
        rows.append([f"a Produce request {name}, µs of CPU", f"{statistics.median(each):.1f}"])
        if name != "plain":
            rows.append(["the ratio to plain", f"{ratio:.3f}"])
    return rows


def _test_for_quotas(requests: int) -> list[list[str]]:
    """What each Produce request of one batch is asked about quotas."""
    holder = SimpleNamespace(shared=SimpleNamespace(quotas=None))
    began = time.process_time()
    for _ in range(requests):
        pass
    empty = time.process_time() - began
    began = time.process_time()
    for _ in range(requests):
        for _ in _TESTS:
            if holder.shared.quotas is not None:
                raise AssertionError
    cost = (time.process_time() - began - empty) / requests * 1e6
    return [[f"{len(_TESTS)} tests for quotas, µs of CPU", f"{cost:.2f}"]]


def _count(requests: int) -> list[list[str]]:
    """What is added to each Produce request of one batch: the clocks, and the counting."""
    metrics, traffic, now = RequestMetrics(), TopicTraffic(), time.monotonic
    header = RequestHeader(0, PRODUCE_VERSION, 7, "bench")
    sender = LoopbackConnection(1, "PLAINTEXT")
    partitions = [PartitionProduceResponse(index=0)]
    response = ProduceResponse(responses=[TopicProduceResponse(name=_TOPIC, partition_responses=partitions)])
    began = time.process_time()
    for _ in range(requests):
        header.read_at = now()
        metrics.handled(header, None)
        traffic.produces += 1
        traffic.messages_in += 1
        traffic.bytes_in += 100
        metrics.clients.of(sender.principal, header.client_id).produced += header.nbytes
        metrics.ended(sender, header, response, now())
    cost = (time.process_time() - began) / requests * 1e6
    return [["what metrics add to it, µs of CPU", f"{cost:.2f}"]]


def _scrape(folder: Path, partitions: int) -> list[list[str]]:
    (port,) = free_ports(1)
    url = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
    with new_server("kafkapy-fsync", folder, {"metrics.port": str(port)}) as server:
        create(server.bootstrap_servers, topic_sizes(partitions, _TOPIC_SIZE))
        with probing(server.address) as quiet:
            time.sleep(3)
        target, costs, sizes = Target(server), [], []
        with probing(server.address) as times:
            for _ in range(_SCRAPES):
                watch = target.stopwatch()
                with urllib.request.urlopen(url, timeout=60) as answer:
                    sizes.append(len(answer.read()))
                costs.append(watch.cost())
    return [
        [
            f"a scrape of {partitions:,} partitions, s",
            f"{statistics.median(cost.seconds for cost in costs):.2f}",
        ],
        ["its CPU time, s", f"{statistics.median(cost.cpu_seconds for cost in costs):.2f}"],
        ["its size with gzip, KB", f"{statistics.median(sizes) / 1000:.0f}"],
        ["the longest wait of a client meanwhile, ms", f"{max(times) * 1000:.1f}"],
        ["the longest wait without scrapes, ms", f"{max(quiet) * 1000:.1f}"],
    ]


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--records", type=int, default=1, help="of a Produce request")
    parser.add_argument("--partitions", type=int, default=10_000)
    chosen = parser.parse_args(options)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        rows = _compare(Path(folder), chosen.rounds, chosen.requests, chosen.records)
        rows += _count(50 * chosen.requests)
        rows += _test_for_quotas(50 * chosen.requests)
        rows += _scrape(Path(folder) / "scraped", chosen.partitions)
    print(aligned(["what", "figure"], rows))
    return 0
