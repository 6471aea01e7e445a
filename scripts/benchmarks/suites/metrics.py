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
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkapy.replicas.topic_traffic import TopicTraffic
from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.many_partitions import create, topic_sizes
from scripts.benchmarks.meter import Meter
from scripts.benchmarks.probe import probing
from scripts.benchmarks.request_cost import request_cost
from scripts.benchmarks.table import aligned
from tests.network.raw_client import RawClient
from tests.ports import free_ports
from tests.servers.kafkapy_process import KafkapyProcess
from tests.storage.log_harness import batch

_TOPIC_SIZE: Final = 1000
_VERSION: Final = 9
_SCRAPES: Final = 5
_TESTS: Final = tuple(range(5))
"""One for each place of network/in_flight.py that a Produce request passes which waits for a disk."""


def _produce_cost(server: KafkapyProcess, client: RawClient, records: int, requests: int) -> float:
    """The microseconds of CPU time that a Produce request costs the broker."""
    values = [b"x" * 100] if records == 1 else [b"x" * 1024] * records
    data = PartitionProduceData(index=0, records=memoryview(batch(*values)))
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="bench-0", partition_data=[data])]
    )
    return request_cost(server.pid, client, request, _VERSION, requests)


def _limit_another(client: RawClient) -> None:
    """Give another client than the one of the benchmark a quota."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="client-id", entity_name="another")],
        ops=[
            OpData(key=name, value=1e9, remove=False) for name in ("producer_byte_rate", "request_percentage")
        ],
    )
    client.ask(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)


def _log_requests(client: RawClient) -> None:
    config = AlterableConfig(name=REQUESTS.name, config_operation=0, value="DEBUG")
    resource = AlterConfigsResource(
        resource_type=ResourceType.BROKER_LOGGER, resource_name="1", configs=[config]
    )
    client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)


def _compare(folder: Path, rounds: int, requests: int, records: int) -> list[list[str]]:
    (port,) = free_ports(1)
    prepared: dict[str, Callable[[RawClient], None]] = {
        "plain": lambda client: None,
        "plain again": lambda client: None,
        "with metrics": lambda client: None,
        "with quotas of others": _limit_another,
        "with all requests logged": _log_requests,
    }
    with ExitStack() as stack:
        servers, clients = {}, {}
        for name, prepare in prepared.items():
            properties = {"durability": "os"}
            if name == "with metrics":
                properties["metrics.port"] = str(port)
            servers[name] = stack.enter_context(KafkapyProcess(folder / name, properties=properties))
            create(servers[name].bootstrap_servers, {"bench-0": 1})
            clients[name] = RawClient(servers[name].bootstrap_servers)
            stack.callback(clients[name].close)
            prepare(clients[name])
            _produce_cost(servers[name], clients[name], records, requests)
        taken: dict[str, list[float]] = {name: [] for name in prepared}
        for _ in range(rounds):
            for name in random.sample(list(prepared), len(prepared)):
                # Into the caches of the CPU first.
                _produce_cost(servers[name], clients[name], records, requests // 8)
                taken[name].append(_produce_cost(servers[name], clients[name], records, requests))
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
    header = RequestHeader(0, _VERSION, 7, "bench")
    sender = LoopbackConnection(1, "PLAINTEXT")
    partitions = [PartitionProduceResponse(index=0)]
    response = ProduceResponse(
        responses=[TopicProduceResponse(name="bench-0", partition_responses=partitions)]
    )
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
    with KafkapyProcess(folder, properties={"metrics.port": str(port)}) as server:
        create(server.bootstrap_servers, topic_sizes(partitions, _TOPIC_SIZE))
        with probing(server.address) as quiet:
            time.sleep(3)
        meter, walls, cpu, sizes = Meter(server.pid), [], [], []
        with probing(server.address) as times:
            for _ in range(_SCRAPES):
                before, began = meter.cpu_seconds(), time.perf_counter()
                with urllib.request.urlopen(url, timeout=60) as answer:
                    sizes.append(len(answer.read()))
                walls.append(time.perf_counter() - began)
                cpu.append(meter.cpu_seconds() - before)
    return [
        [f"a scrape of {partitions:,} partitions, s", f"{statistics.median(walls):.2f}"],
        ["its CPU time, s", f"{statistics.median(cpu):.2f}"],
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
