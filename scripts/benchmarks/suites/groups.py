"""Groups on kafkapy and Apache Kafka: formation, commits, share groups, large states.

scripts/bench groups                                   all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench groups --load commit-1 --repeat 1 --scale 0.3                             one load, smaller
scripts/bench groups --server kafkapy-fsync --server kafka --markdown out.md --json out.json

Groups form without an initial delay. Sessions end after 6 s, and members send heartbeats every second: both
are shorter than by default, so that a member's death is noticed while one waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.benchmarks.coordinators import shares, stability
from scripts.benchmarks.coordinators.loads import GROUP_LOADS
from scripts.benchmarks.one_server import compare_one_server


def main(options: Sequence[str]) -> int:
    properties = {**stability.PROPERTIES, **shares.PROPERTIES}
    return compare_one_server(__name__, __doc__, options, GROUP_LOADS, properties)
