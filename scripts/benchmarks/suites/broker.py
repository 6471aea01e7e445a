"""kafkapy and Apache Kafka under the same loads, in turn: both columns and their ratios.

scripts/bench broker                                   all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench broker --load stream-1k --load sync --scale 0.3                          some loads, smaller
scripts/bench broker --server kafkapy-fsync --server kafka --markdown out.md --json out.json
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.benchmarks.loads import LOADS
from scripts.benchmarks.one_server import compare_one_server


def main(options: Sequence[str]) -> int:
    return compare_one_server(__name__, __doc__, options, LOADS)
