"""All loads on three brokers, by the name that the command line uses."""

from __future__ import annotations

from scripts.benchmarks.cluster.catch_up import catch_up
from scripts.benchmarks.cluster.coordinator import coordinator
from scripts.benchmarks.cluster.failover import failing_over
from scripts.benchmarks.cluster.pauses import pauses
from scripts.benchmarks.cluster.start import start
from scripts.benchmarks.cluster.target import ClusterTarget
from scripts.benchmarks.latency import synchronous_produce
from scripts.benchmarks.load import ColdLoad, Load
from scripts.benchmarks.streaming import streaming
from scripts.benchmarks.topics import creating_topics

LOADS: dict[str, Load[ClusterTarget] | ColdLoad] = {
    "start": ColdLoad("start", start),
    "stream-1k": Load("1 KiB records over 6 partitions", streaming(6, 1024, 1000, idempotent=True)),
    "sync": Load("synchronous produce of 100 bytes, acks=all", synchronous_produce),
    "pauses": Load("longest wait of a producer", pauses, warm_up=0),
    "coordinator": Load("longest wait for a coordinator of groups", coordinator, warm_up=0),
    "catch-up": Load("a broker returns after 500 MB", catch_up),
    "topics": Load("500 topics", creating_topics(500, 1)),
    "failover-1k": Load("controller killed, 1,000 partitions", failing_over(1000), warm_up=0),
    "failover-10k": Load("controller killed, 10,000 partitions", failing_over(10_000), warm_up=0),
}

BY_DEFAULT = [name for name in LOADS if name != "failover-10k"]
