"""Clusters of kafkapy and of Apache Kafka 3.9.1 under the same loads, in turn.

scripts/bench cluster                          all loads but failover-10k, on all three kinds of cluster
scripts/bench cluster --load stream-1k --load sync --scale 0.3                      some loads, smaller
scripts/bench cluster --load failover-10k --repeat 1 --server kafkapy-fsync --server kafka

Each cluster has three brokers and a ZooKeeper. Each topic has a replica on each broker, min.insync.replicas
is 2, and sessions of ZooKeeper end after four seconds. CPU time and memory are sums over the three brokers;
ZooKeeper's CPU time over the complete load, its preparation included, is a figure of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.benchmarks.cluster.loads import BY_DEFAULT, LOADS
from scripts.benchmarks.cluster.target import on_a_zookeeper
from scripts.benchmarks.comparison import compare, comparison_arguments
from scripts.benchmarks.load import Figures, Load, Size
from scripts.benchmarks.meter import Meter, Stopwatch
from scripts.benchmarks.servers import CLUSTERS


def main(options: Sequence[str]) -> int:
    arguments = comparison_arguments(__name__, __doc__, options, LOADS, CLUSTERS)
    return compare(
        arguments, _measure, arguments.load or BY_DEFAULT, arguments.server or list(CLUSTERS), LOADS, CLUSTERS
    )


def _measure(name: str, server: str, size: Size) -> list[Figures]:
    """One load on one cluster, started for it alone."""
    load = LOADS[name]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if not isinstance(load, Load):
            return [load.run(server, Path(folder, str(n))) for n in range(size.repetitions)]
        with on_a_zookeeper(server, Path(folder)) as (target, zookeeper):
            target.start()
            load.warm(target, size)
            measured = []
            for _ in range(size.repetitions):
                watch = Stopwatch(Meter(zookeeper.pid))
                figures = load.run(target, size.scale)
                measured.append({**figures, "ZooKeeper's CPU seconds": watch.cost().cpu_seconds})
            return measured
