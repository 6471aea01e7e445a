"""The partitions of keys, and what is kept of the keys."""

from __future__ import annotations

import tracemalloc

from kafkapy.coordination.partitioning import LONGEST_KEPT, partition_of


def test_long_keys_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            partition_of(f"{number:08}" + "x" * 32_000, 50)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 18


def test_a_key_has_the_same_partition_whether_it_is_kept_or_not() -> None:
    # Java's hash of a text of NULs and one character is that character's code.
    assert partition_of("\0" * (LONGEST_KEPT - 1) + "A", 50) == ord("A") % 50
    assert partition_of("\0" * LONGEST_KEPT + "A", 50) == ord("A") % 50
