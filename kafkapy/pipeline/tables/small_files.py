"""Which small files of a table are merged while its pipeline runs.

A slow topic makes a file or two in each batch. Files are divided into tiers by their size, up to 10 MB. As
soon as a partition of the table has `MANY` files of one tier, they are merged into one, with the files of the
tiers below. So a partition has fewer than `MANY` files of each tier, and a row is written again only a few
times before its file is too large to be merged: once in each tier, and while less than the first tier has.

One merge reads at most `MOST_FILES` files and `MOST_BYTES`, which bounds the time that a batch waits for it.
What is beyond that, as in a table that was never maintained, is left to `kafkapy pipeline maintain`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

TIERS: Final = (100_000, 1_000_000, 10_000_000)
"""The sizes, in bytes, that the files of each tier are below."""
MANY: Final = 16
MOST_FILES: Final = 2_000
MOST_BYTES: Final = 256_000_000
_MOST_PARTITIONS: Final = 100


class TierCount(NamedTuple):
    """The files of one tier in a partition, which is named as its format does it."""

    partition: str
    tier: int
    files: int
    bytes: int


@dataclass(frozen=True)
class Merge:
    """Files to be merged: those of these partitions that are smaller than `below` bytes.

    Each of the partitions has at least `many` of them.
    """

    below: int
    partitions: tuple[str, ...]
    files: int
    many: int


def tier_of(size: str) -> str:
    """The SQL expression for the tier of a file; null if it is not small."""
    cases = " ".join(f"WHEN {size} < {below} THEN {tier}" for tier, below in enumerate(TIERS))
    return f"CASE {cases} END"


def counted(files: Iterable[tuple[str, int]]) -> list[TierCount]:
    """The small files of these, each with its partition and its size in bytes."""
    sizes: dict[tuple[str, int], list[int]] = defaultdict(list)
    for partition, size in files:
        tier = next((tier for tier, below in enumerate(TIERS) if size < below), None)
        if tier is not None:
            sizes[partition, tier].append(size)
    return [TierCount(*place, len(found), sum(found)) for place, found in sizes.items()]


def due_merge(counts: Iterable[TierCount]) -> Merge | None:
    """The merge that is due; of several, the one of the largest files."""
    by_partition: dict[str, dict[int, TierCount]] = defaultdict(dict)
    for one in counts:
        by_partition[one.partition][one.tier] = one
    for tier in reversed(range(len(TIERS))):
        chosen, files, size = [], 0, 0
        for partition, tiers in sorted(by_partition.items()):
            if tier not in tiers or tiers[tier].files < MANY:
                continue
            merged = [one for one in tiers.values() if one.tier <= tier]
            more_files, more = sum(one.files for one in merged), sum(one.bytes for one in merged)
            if files + more_files <= MOST_FILES and size + more <= MOST_BYTES:
                chosen.append(partition)
                files, size = files + more_files, size + more
        if chosen:
            return Merge(TIERS[tier], tuple(chosen[:_MOST_PARTITIONS]), files, MANY)
    return None


def batches_until_due(counts: Iterable[TierCount]) -> int:
    """After how many batches a merge may be due, if each adds a file to a partition."""
    return max(MANY - max((one.files for one in counts), default=0), 1)


def batches_after_merge() -> int:
    """After how many batches to look again: each of them may make two files."""
    return MANY // 2
