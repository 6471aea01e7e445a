"""Which tombstones may be later than the records of a batch."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark==4.0.0)")

from kafkapy.pipeline.tables.tombstones import Place, may_be_later


@pytest.mark.parametrize(
    ("newest", "oldest", "expected"),
    [
        ({}, {0: Place(5, 50)}, False),
        ({0: Place(5, 50)}, {}, False),
        # Within a partition the offset counts, whatever the timestamps say.
        ({0: Place(4, 99)}, {0: Place(5, 50)}, False),
        ({0: Place(6, 10)}, {0: Place(5, 50)}, True),
        # Of other partitions the timestamp counts; with equal ones, the higher partition.
        ({1: Place(9, 49)}, {0: Place(5, 50)}, False),
        ({1: Place(0, 50)}, {0: Place(5, 50)}, True),
        ({0: Place(4, 40), 1: Place(0, 60)}, {0: Place(5, 50), 1: Place(1, 70)}, True),
        ({0: Place(4, 40), 1: Place(0, 49)}, {0: Place(5, 50), 1: Place(1, 70)}, False),
    ],
)
def test_a_tombstone_matters_if_it_may_be_later_than_a_record(
    newest: dict[int, Place], oldest: dict[int, Place], expected: bool
) -> None:
    assert may_be_later(newest, oldest) is expected
