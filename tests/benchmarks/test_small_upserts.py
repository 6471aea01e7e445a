"""The keys that the benchmark of small upserts changes."""

from __future__ import annotations

import pytest

from scripts.benchmarks.small_upserts import Case


@pytest.mark.parametrize("recent", [False, True])
@pytest.mark.parametrize("rows", [100_000, 2_000_000, 10_000_000])
def test_each_batch_has_a_hundred_keys_of_all_files(rows: int, recent: bool) -> None:
    """Rows that are not clustered are dealt out to as many parts as there are millions."""
    case = Case(
        table="delta",
        rows=rows,
        batches=2,
        merge_mode="merge-on-read",
        key="id",
        recent=recent,
        clustered=False,
        tombstones=0,
        conf={},
        jobs=False,
    )
    parts = -(-rows // 1_000_000)
    for number in (0, 1, 29):
        accounts = case.accounts(number)
        assert len(accounts) == len(set(accounts)) == 100
        assert min(accounts) >= (rows - 1_000 if recent else 0)
        assert max(accounts) < rows
        assert {account % parts for account in accounts} == set(range(parts))
    assert case.accounts(0) != case.accounts(1)
