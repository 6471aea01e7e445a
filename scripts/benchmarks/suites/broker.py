"""kafkapy and Apache Kafka under the same loads, in turn: both columns and their ratios.

scripts/bench broker                                   all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench broker --load stream-1k --load sync --scale 0.3                          some loads, smaller
scripts/bench broker --server kafkapy-fsync --server kafka --markdown out.md --json out.json
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scripts.benchmarks.comparison import Loads, compare_one_server
from scripts.benchmarks.connections import open_connections
from scripts.benchmarks.java_perf import java_perf
from scripts.benchmarks.latency import end_to_end, synchronous_produce
from scripts.benchmarks.load import ColdLoad, Load, Target
from scripts.benchmarks.neighbours import beside, beside_all
from scripts.benchmarks.reconnecting import reconnecting
from scripts.benchmarks.start import start
from scripts.benchmarks.streaming import streaming
from scripts.benchmarks.topics import creating_topics

LOADS: Final[Loads[Target]] = {
    "start": ColdLoad("start", start),
    "stream-1k": Load("1 KiB records over 6 partitions, librdkafka", streaming(6, 1024, 1000)),
    "stream-100": Load("100-byte records over 1 partition, librdkafka", streaming(1, 100, 400)),
    "java-1k": Load("1 KiB records over 6 partitions, Java", java_perf(6, 1024, 1000)),
    "java-100": Load("100-byte records over 1 partition, Java", java_perf(1, 100, 400)),
    "sync": Load("synchronous produce of 100 bytes, acks=all", synchronous_produce),
    "beside-bombs": Load("acks=all beside 40 connections of gzip bombs", beside("bombs")),
    "beside-wide": Load("acks=all beside requests of 200 partitions", beside("wide")),
    "beside-topics": Load("acks=all beside new topics of 500 partitions", beside("topics")),
    "stalls": Load("small requests beside all of these, and searches by time", beside_all),
    "end-to-end": Load("produce to consume, one record at a time", end_to_end),
    "connections": Load("2,000 open connections", open_connections),
    "reconnect": ColdLoad("10,000 clients after a restart", reconnecting),
    "topics": Load("500 topics of 4 partitions", creating_topics(500, 4)),
}


def main(options: Sequence[str]) -> int:
    return compare_one_server(__name__, __doc__, options, LOADS)
