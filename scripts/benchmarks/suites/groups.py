"""Groups on kafkapy and Apache Kafka: formation, commits, share groups, large states.

scripts/bench groups                                   all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench groups --load commit-1 --repeat 1 --scale 0.3                             one load, smaller
scripts/bench groups --server kafkapy-fsync --server kafka --markdown out.md --json out.json

Groups form without an initial delay. Sessions end after 6 s, and members send heartbeats every second: both
are shorter than by default, so that a member's death is noticed while one waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scripts.benchmarks.comparison import Loads, compare_one_server
from scripts.benchmarks.coordinators import shares, stability
from scripts.benchmarks.coordinators.offsets import committing
from scripts.benchmarks.coordinators.offsets_at_start import loading_offsets
from scripts.benchmarks.coordinators.shares import sharing
from scripts.benchmarks.coordinators.stability import becoming_stable
from scripts.benchmarks.load import ColdLoad, Load, Target

LOADS: Final[Loads[Target]] = {
    "stable-classic": Load(
        "50 consumers over 200 partitions, classic protocol", becoming_stable("classic"), warm_up=0.1
    ),
    "stable-consumer": Load(
        "50 consumers over 200 partitions, consumer protocol (KIP-848)",
        becoming_stable("consumer"),
        warm_up=0.1,
    ),
    "commit-1": Load("OffsetCommit of one partition", committing(1)),
    "commit-10": Load("OffsetCommit of ten partitions", committing(10)),
    "share-implicit": Load("4 members of a share group, accepted by the next poll", sharing("implicit")),
    "share-explicit": Load(
        "4 members of a share group, each record accepted or rejected", sharing("explicit")
    ),
    "load-offsets": ColdLoad("start with 1,000,000 committed offsets", loading_offsets(1_000_000)),
}


def main(options: Sequence[str]) -> int:
    properties = {**stability.PROPERTIES, **shares.PROPERTIES}
    return compare_one_server(__name__, __doc__, options, LOADS, properties)
