"""Transactions on kafkapy and Apache Kafka: how many in a second, and their CPU time.

scripts/bench transactions                             all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench transactions --load one --repeat 1 --scale 0.3                            one load, smaller
scripts/bench transactions --server kafkapy-fsync --server kafka --markdown out.md --json out.json

Each transaction writes a record of 100 bytes to each of its partitions. The producers are librdkafka's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scripts.benchmarks.comparison import compare_one_server
from scripts.benchmarks.coordinators.transactions import in_turn
from scripts.benchmarks.load import Load

LOADS: Final = {
    "one": Load("transactions of one partition, in turn", in_turn(1)),
    "ten": Load("transactions of ten partitions, in turn", in_turn(10)),
    "twenty-producers": Load("transactions of one partition, 20 producers", in_turn(1, producers=20)),
}


def main(options: Sequence[str]) -> int:
    return compare_one_server(__name__, __doc__, options, LOADS)
