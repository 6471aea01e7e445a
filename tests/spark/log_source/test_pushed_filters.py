"""What a query's filters leave to read: never less than its rows, and little more.

The filters stand for those of pyspark 4.1, which have the same names and attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkapy.log.record_filter import ALL_RECORDS, Interval, RecordFilter
from kafkapy.protocol.types import TopicPartition
from kafkapy.spark.log_source.pushed_filters import narrowed

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = 1_769_860_800_000


@dataclass(frozen=True)
class Filter:
    attribute: tuple[str, ...]
    value: Any = None


EqualTo = type("EqualTo", (Filter,), {})
EqualNullSafe = type("EqualNullSafe", (Filter,), {})
In = type("In", (Filter,), {})
GreaterThan = type("GreaterThan", (Filter,), {})
GreaterThanOrEqual = type("GreaterThanOrEqual", (Filter,), {})
LessThan = type("LessThan", (Filter,), {})
LessThanOrEqual = type("LessThanOrEqual", (Filter,), {})
IsNotNull = type("IsNotNull", (Filter,), {})
StringContains = type("StringContains", (Filter,), {})


@dataclass(frozen=True)
class Not:
    child: Filter


def wanted(*filters: Any) -> RecordFilter:
    return narrowed(ALL_RECORDS, filters)


def test_one_record() -> None:
    found = wanted(EqualTo(("partition",), 2), EqualTo(("offset",), 17), EqualTo(("topic",), "orders"))
    assert found == RecordFilter(frozenset({"orders"}), Interval(2, 2), Interval(17, 17))
    assert found.has_partition(TopicPartition("orders", 2))
    assert not found.has_partition(TopicPartition("orders", 1))
    assert not found.has_partition(TopicPartition("payments", 2))


@pytest.mark.parametrize(
    ("given", "interval"),
    [
        (GreaterThan(("offset",), 5), Interval(5, None)),  # Spark leaves 5 out
        (GreaterThanOrEqual(("offset",), 5), Interval(5, None)),
        (LessThan(("offset",), 5), Interval(None, 5)),
        (LessThanOrEqual(("offset",), 5), Interval(None, 5)),
        (EqualNullSafe(("offset",), 5), Interval(5, 5)),
        (In(("offset",), (9, None, 3)), Interval(3, 9)),
    ],
)
def test_numbers(given: Filter, interval: Interval) -> None:
    assert wanted(given).offsets == interval


def test_times_are_rounded_so_that_nothing_is_lost() -> None:
    later = NOON + timedelta(microseconds=1500)
    assert wanted(GreaterThanOrEqual(("timestamp",), NOON)).timestamps == Interval(NOON_MS, None)
    assert wanted(LessThan(("timestamp",), later)).timestamps == Interval(None, NOON_MS + 1)
    assert wanted(EqualTo(("timestamp",), NOON)).timestamps == Interval(NOON_MS, NOON_MS)
    before = datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)
    assert wanted(GreaterThan(("timestamp",), before)).timestamps == Interval(-1, None)


def test_filters_are_all_meant() -> None:
    found = wanted(
        GreaterThan(("offset",), 5),
        LessThan(("offset",), 9),
        In(("key",), (b"a", b"b")),
        In(("key",), (bytearray(b"b"), b"c")),
        EqualTo(("topic",), "orders"),
        EqualTo(("topic",), "payments"),
    )
    assert found.offsets == Interval(5, 9)
    assert found.keys == frozenset({b"b"})
    assert found.topics == frozenset()


@pytest.mark.parametrize(
    "given",
    [
        Not(EqualTo(("offset",), 5)),
        IsNotNull(("key",)),
        StringContains(("topic",), "or"),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        EqualNullSafe(("offset",), None),
        EqualNullSafe(("key",), None),
        EqualTo(("offset",), 5.5),
        EqualTo(("timestamp",), datetime(2026, 1, 31)),
        GreaterThan(("topic",), "a"),
        GreaterThan(("key",), b"a"),
    ],
)
def test_what_is_not_understood_is_left_to_spark(given: Any) -> None:
    assert wanted(given) == ALL_RECORDS


def test_an_option_for_the_key_counts_too() -> None:
    found = narrowed(ALL_RECORDS.with_keys([b"a"]), [EqualTo(("key",), b"b")])
    assert found.keys == frozenset()
