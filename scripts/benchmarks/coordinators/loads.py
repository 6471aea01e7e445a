"""The loads of `scripts/bench groups` and `scripts/bench transactions`, by name."""

from __future__ import annotations

from scripts.benchmarks.coordinators.commits import committing
from scripts.benchmarks.coordinators.offsets_at_start import loading_offsets
from scripts.benchmarks.coordinators.shares import sharing
from scripts.benchmarks.coordinators.stability import becoming_stable
from scripts.benchmarks.coordinators.transactions import in_turn
from scripts.benchmarks.load import ColdLoad, Load, Target

GROUP_LOADS: dict[str, Load[Target] | ColdLoad] = {
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

TRANSACTION_LOADS: dict[str, Load[Target] | ColdLoad] = {
    "one": Load("transactions of one partition, in turn", in_turn(1)),
    "ten": Load("transactions of ten partitions, in turn", in_turn(10)),
    "twenty-producers": Load("transactions of one partition, 20 producers", in_turn(1, producers=20)),
}
