"""What a client at twenty times its quota gets, and what its neighbour notices of it (R19).

scripts/bench quotas                               all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench quotas --load produce --repeat 1 --scale 0.2 --server kafkapy            one load, shorter

The abuser has four connections. The neighbour, with another client id, has each record of 100 bytes
acknowledged before it sends the next. Complete, the abuser is at work for 33 windows of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scripts.benchmarks.comparison import compare_one_server
from scripts.benchmarks.load import Load
from scripts.benchmarks.quota_abuse import beside

LOADS: Final = {
    "produce": Load("a producer at twenty times its quota of 1 MB/s", beside("produce"), warm_up=0),
    "fetch": Load("a consumer at twenty times its quota of 1 MB/s", beside("fetch"), warm_up=0),
    "request": Load(
        "requests without end, with a quota of a twentieth of the time", beside("request"), warm_up=0
    ),
    "hot-partition": Load(
        "a producer at twenty times its quota of 1 MB/s, on the partition of its neighbour",
        beside("produce", same_partition=True),
        warm_up=0,
    ),
    "metadata": Load(
        "requests for 10,000 partitions without end, with a quota of a twentieth of the time",
        beside("request", partitions=10_000),
        warm_up=0,
    ),
    "mutations": Load(
        "a client that creates topics at twenty times its quota of 5 partitions/s",
        beside("mutations"),
        warm_up=0,
    ),
}


def main(options: Sequence[str]) -> int:
    return compare_one_server(__name__, __doc__, options, LOADS)
