"""Filters of a query that Spark 4.1 and later push down to the data source.

    topic, partition, offset, timestamp    =, <=>, IN, and for numbers and times <, <=, >, >=
    key                                    =, <=>, IN

They only choose what is read: Spark applies every filter again to the rows, so what is not understood here (a
NOT, a part of a text, a null) is left to it. The classes of filters are known by their names, since an older
pyspark does not have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kafkapy.log.record_filter import Interval, RecordFilter

_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NUMBERS: Final = {"partition": "partitions", "offset": "offsets", "timestamp": "timestamps"}
"""The columns with an order, and their intervals in RecordFilter."""


def narrowed(wanted: RecordFilter, filters: Iterable[Any]) -> RecordFilter:
    """Return `wanted` without records that one of these filters of pyspark leaves out."""
    for each in filters:
        wanted = _narrowed_by(wanted, each)
    return wanted


def _narrowed_by(wanted: RecordFilter, each: Any) -> RecordFilter:
    column = getattr(each, "attribute", None)
    if column is None or len(column) != 1:
        return wanted
    (name,) = column
    if name in _NUMBERS:
        interval = _interval(each)
        field = _NUMBERS[name]
        return (
            wanted
            if interval is None
            else replace(wanted, **{field: getattr(wanted, field).within(interval)})
        )
    values = _values(each)
    if values is None:
        return wanted
    if name == "topic" and all(isinstance(value, str) for value in values):
        return wanted.with_topics(values)
    if name == "key" and all(isinstance(value, bytes | bytearray) for value in values):
        return wanted.with_keys(map(bytes, values))
    return wanted


def _kind(each: Any) -> str:
    return type(each).__name__


def _values(each: Any) -> Sequence[Any] | None:
    """Return the values of which a column has one; None if the filter says something else."""
    if _kind(each) in ("EqualTo", "EqualNullSafe"):
        return [each.value]
    if _kind(each) == "In":
        return [value for value in each.value if value is not None]
    return None


def _interval(each: Any) -> Interval | None:
    """Return the least interval with all the numbers that a filter accepts.

    Times are milliseconds. None if the filter says something else.
    """
    values = _values(each)
    if values is not None:
        whole = [number for value in values if (number := _floor(value)) is not None]
        return Interval(min(whole), max(whole)) if whole and len(whole) == len(values) else None
    value = _floor(getattr(each, "value", None))
    if value is None:
        return None
    if _kind(each) in ("GreaterThan", "GreaterThanOrEqual"):
        return Interval(value, None)
    if _kind(each) in ("LessThan", "LessThanOrEqual"):
        return Interval(None, value)
    return None


def _floor(value: Any) -> int | None:
    """Return a number, or the milliseconds of a time rounded down; None for anything else."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _1970) // _MILLISECOND
    return value if type(value) is int else None
