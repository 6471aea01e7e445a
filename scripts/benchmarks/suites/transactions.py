"""Transactions on kafkapy and Apache Kafka: how many in a second, and their CPU time.

scripts/bench transactions                             all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench transactions --load one --repeat 1 --scale 0.3                            one load, smaller
scripts/bench transactions --server kafkapy-fsync --server kafka --markdown out.md --json out.json

Each transaction writes a record of 100 bytes to each of its partitions. The producers are librdkafka's.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.benchmarks.comparison import compare, comparison_arguments
from scripts.benchmarks.coordinators.loads import TRANSACTION_LOADS
from scripts.benchmarks.one_server import on_one_server
from scripts.benchmarks.servers import DESCRIPTIONS


def main(options: Sequence[str]) -> int:
    arguments = comparison_arguments(__name__, __doc__, options, TRANSACTION_LOADS, DESCRIPTIONS)
    return compare(
        arguments,
        on_one_server(TRANSACTION_LOADS),
        arguments.load or list(TRANSACTION_LOADS),
        arguments.server or ["kafkapy", "kafka"],
        TRANSACTION_LOADS,
        DESCRIPTIONS,
    )
