"""Clusters of kafkapy and of Apache Kafka 3.9.1 under the same loads, in turn.

scripts/bench cluster                          all loads but failover-10k, on all three kinds of cluster
scripts/bench cluster --load stream-1k --load sync --scale 0.3                      some loads, smaller
scripts/bench cluster --load failover-10k --repeat 1 --server kafkapy-fsync --server kafka

Each cluster has three brokers and a ZooKeeper. Each topic has a replica on each broker, min.insync.replicas
is 2, and sessions of ZooKeeper end after four seconds. CPU time and memory are sums over the three brokers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.benchmarks.cluster.catch_up import catch_up
from scripts.benchmarks.cluster.coordinator import coordinator
from scripts.benchmarks.cluster.failover import failing_over
from scripts.benchmarks.cluster.pauses import pauses
from scripts.benchmarks.cluster.target import ClusterTarget, on_a_zookeeper, running_cluster
from scripts.benchmarks.comparison import Loads, compare
from scripts.benchmarks.latency import synchronous_produce
from scripts.benchmarks.load import ColdLoad, Figures, Load
from scripts.benchmarks.meter import Meter, Stopwatch
from scripts.benchmarks.servers import CLUSTERS
from scripts.benchmarks.streaming import streaming
from scripts.benchmarks.topics import creating_topics


def _start(name: str, folder: Path) -> Figures:
    """Load: start three brokers at once on empty folders and an empty ZooKeeper."""
    with on_a_zookeeper(name, folder) as target:
        seconds = target.start()
        cpu_seconds = target.meter.cpu_seconds()
        time.sleep(5)  # idle
        return {
            "until three brokers and a controller are shown, s": seconds,
            "CPU seconds": cpu_seconds,
            "memory idle, MB": target.meter.resident_mb(),
            "memory idle, shared counted once, MB": target.meter.proportional_mb(),
        }


def _create_topics(target: ClusterTarget, scale: float) -> Figures:
    """Load: that of one broker, and what it costs ZooKeeper."""
    watch = Stopwatch(Meter(target.zookeeper.pid))
    figures = creating_topics(500, 1)(target, scale)
    return {**figures, "ZooKeeper's CPU seconds": watch.cost().cpu_seconds}


LOADS: Final[Loads[ClusterTarget]] = {
    "start": ColdLoad("start", _start),
    "stream-1k": Load("1 KiB records over 6 partitions", streaming(6, 1024, 1000, idempotent=True)),
    "sync": Load("synchronous produce of 100 bytes, acks=all", synchronous_produce),
    "pauses": Load("longest wait of a producer", pauses, warm_up=0),
    "coordinator": Load("longest wait for a coordinator of groups", coordinator, warm_up=0),
    "catch-up": Load("a broker returns after 500 MB", catch_up),
    "topics": Load("500 topics", _create_topics),
    "failover-1k": Load("controller killed, 1,000 partitions", failing_over(1000), warm_up=0),
    "failover-10k": Load(
        "controller killed, 10,000 partitions", failing_over(10_000), warm_up=0, by_default=False
    ),
}


def main(options: Sequence[str]) -> int:
    return compare(__name__, __doc__, options, LOADS, running_cluster, CLUSTERS, list(CLUSTERS))
