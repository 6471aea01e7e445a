"""How kafkapy and Apache Kafka compact the same files, alone and while a producer works.

scripts/bench compaction                               1 GB of 1 KiB records with 100,000 keys
scripts/bench compaction --scale 0.1 --repeat 1        a tenth of both
scripts/bench compaction --server kafkapy-fsync --server kafka --markdown out.md --json out.json

The producer waits for each of its records to be acknowledged. The server is started again for each
repetition, after it was given the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scripts.benchmarks.compaction import PROPERTIES, compacting, producing
from scripts.benchmarks.comparison import compare_one_server
from scripts.benchmarks.load import Load

LOADS: Final = {
    "compacting": Load("1 GB, nothing else to do", compacting, warm_up=0),
    "producing": Load("1 GB, while a producer works", producing, warm_up=0),
}


def main(options: Sequence[str]) -> int:
    return compare_one_server(__name__, __doc__, options, LOADS, PROPERTIES)
