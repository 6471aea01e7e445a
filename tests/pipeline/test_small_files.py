"""Which small files of a table are merged."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

from kafkapy.pipeline.tables.small_files import (
    MANY,
    MOST_BYTES,
    MOST_FILES,
    TIERS,
    Merge,
    TierCount,
    batches_after_merge,
    batches_until_due,
    counted,
    due_merge,
)


def test_nothing_is_due_before_a_tier_has_many_files() -> None:
    assert due_merge([]) is None
    assert due_merge([TierCount("a", 0, MANY - 1, 10), TierCount("a", 1, 1, 10)]) is None
    assert due_merge([TierCount("a", 0, MANY // 2, 10), TierCount("b", 0, MANY // 2, 10)]) is None


def test_a_tier_is_merged_with_those_below_it_in_its_partition_alone() -> None:
    counts = [TierCount("a", 0, 3, 10), TierCount("a", 1, MANY, 10), TierCount("b", 1, 5, 10)]
    assert due_merge(counts) == Merge(TIERS[1], ("a",), 3 + MANY, MANY)


def test_the_tier_of_the_largest_files_comes_first() -> None:
    counts = [TierCount("a", 0, MANY, 10), TierCount("b", 2, MANY, 10)]
    assert due_merge(counts) == Merge(TIERS[2], ("b",), MANY, MANY)


def test_a_merge_is_bounded() -> None:
    large = TierCount("a", 2, MANY, MOST_BYTES + 1)
    assert due_merge([large]) is None
    assert due_merge([TierCount("a", 0, MOST_FILES + 1, 10)]) is None
    assert due_merge([large, TierCount("a", 0, MANY, 10)]) == Merge(TIERS[0], ("a",), MANY, MANY)
    halves = [TierCount(name, 2, MANY, MOST_BYTES // 2) for name in "abc"]
    assert due_merge(halves) == Merge(TIERS[2], ("a", "b"), 2 * MANY, MANY)


def test_the_table_is_looked_at_when_a_merge_may_be_due() -> None:
    assert batches_until_due([]) == MANY
    assert batches_until_due([TierCount("a", 0, 5, 10), TierCount("b", 1, 10, 10)]) == MANY - 10
    assert batches_until_due([TierCount("a", 0, MOST_FILES + 1, 10)]) == 1


def test_a_day_of_small_batches_leaves_few_files_and_writes_a_row_few_times() -> None:
    """A batch a second makes a file of 5 KB, most of which is not rows."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    files: list[int] = []
    overhead, most, rewritten, batches = 4_000, 0, 0, 86_400
    written = 0
    due = 1
    for _ in range(batches):
        rows = dice.randrange(200, 2_000)
        written += rows
        files.append(overhead + rows)
        due -= 1
        if due == 0:
            counts = list(_counted(files))
            merge = due_merge(counts)
            if merge is None:
                due = batches_until_due(counts)
            else:
                chosen = [size for size in files if size < merge.below]
                merged = sum(chosen) - overhead * len(chosen)
                files = [size for size in files if size >= merge.below] + [overhead + merged]
                rewritten += merged
                due = batches_after_merge()
        most = max(most, len([size for size in files if size < TIERS[-1]]))
    assert most <= 3 * MANY
    assert rewritten < 6 * written


def _counted(files: Iterable[int]) -> Iterable[TierCount]:
    def tier(size: int) -> int:
        return sum(size >= below for below in TIERS)

    for number, sizes in itertools.groupby(sorted(files), tier):
        if number < len(TIERS):
            listed = list(sizes)
            yield TierCount("", number, len(listed), sum(listed))


def test_files_are_counted_by_partition_and_tier() -> None:
    files = [("a", 1), ("a", TIERS[0] - 1), ("a", TIERS[0]), ("b", TIERS[2] - 1), ("b", TIERS[2])]
    assert sorted(counted(files)) == [
        TierCount("a", 0, 2, TIERS[0]),
        TierCount("a", 1, 1, TIERS[0]),
        TierCount("b", 2, 1, TIERS[2] - 1),
    ]
