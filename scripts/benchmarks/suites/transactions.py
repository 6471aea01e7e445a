"""Transactions on kafkapy and Apache Kafka: how many in a second, and their CPU time.

scripts/bench transactions                             all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench transactions --load one --repeat 1 --scale 0.3                            one load, smaller
scripts/bench transactions --server kafkapy-fsync --server kafka --markdown out.md --json out.json

Each transaction writes a record of 100 bytes to each of its partitions. The producers are librdkafka's.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.benchmarks.coordinators.loads import TRANSACTION_LOADS
from scripts.benchmarks.one_server import compare_one_server


def main(options: Sequence[str]) -> int:
    return compare_one_server(__name__, __doc__, options, TRANSACTION_LOADS)
