"""Types that become wider: the least that holds two others, and what a format allows.

A column's type changes only to one that holds every former value exactly, and only in the table's metadata:

    Delta      TINYINT, SMALLINT, INT, BIGINT to a wider one of them or to DECIMAL; all but BIGINT to DOUBLE;
               FLOAT to DOUBLE; DECIMAL to more digits before and after the point; DATE to TIMESTAMP_NTZ.
               That is the table feature typeWidening, which a reader must know.
    Iceberg    INT to BIGINT; FLOAT to DOUBLE; DECIMAL to more digits before the point
    Parquet    none: its readers take the type of one file for that of all
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import DataType, DecimalType, DoubleType

from kafkapy.pipeline.tables.sql import ddl

_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""By integer type, from the narrowest on, the digits of the DECIMAL that Spark and Delta change it to."""
_INTEGERS: Final = tuple(_DIGITS)
_MOST_DIGITS: Final = 38


def least_type(one: DataType, other: DataType) -> DataType | None:
    """The least type that holds all values of both exactly; None if there is none."""
    first, second = ddl(one), ddl(other)
    if first == second:
        return one
    for narrow, wide, kind in ((first, second, other), (second, first, one)):
        if narrow in _INTEGERS and wide in _INTEGERS and _INTEGERS.index(narrow) < _INTEGERS.index(wide):
            return kind
        if wide == "double" and (narrow == "float" or narrow in _INTEGERS[:3]):
            return DoubleType()
        if narrow == "date" and wide == "timestamp_ntz":
            return kind
    digits = [_decimal_digits(kind) for kind in (one, other)]
    if None in digits:
        return None
    (before, after), (other_before, other_after) = (pair for pair in digits if pair is not None)
    before, after = max(before, other_before), max(after, other_after)
    return DecimalType(before + after, after) if before + after <= _MOST_DIGITS else None


def _decimal_digits(kind: DataType) -> tuple[int, int] | None:
    """The digits before and after the point."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    return (_DIGITS[ddl(kind)], 0) if ddl(kind) in _INTEGERS else None


@dataclass(frozen=True)
class Widening:
    """Which types of a table's columns may change."""

    format: str
    wanted: bool = False

    def type_for(self, stored: DataType, arriving: DataType) -> DataType | None:
        """The type to which a column changes for values of another one; None if it may not."""
        wider = least_type(stored, arriving)
        return wider if self.wanted and wider is not None and self._allows(stored, wider) else None

    def remedy(self, stored: DataType, arriving: DataType) -> str:
        """What the user may do about it, to be followed by other remedies; empty if nothing."""
        wider = least_type(stored, arriving)
        if wider is None:
            return ""
        name = ddl(wider).upper()
        if not self._allows(stored, wider):
            return f"{self.format.capitalize()} cannot change a column from {ddl(stored).upper()} to {name}; "
        return f"widen_types: true makes it {name}; "

    def _allows(self, stored: DataType, wider: DataType) -> bool:
        if self.format == "delta":
            return True
        if self.format == "iceberg":
            if isinstance(stored, DecimalType) and isinstance(wider, DecimalType):
                return bool(stored.scale == wider.scale)
            return (ddl(stored), ddl(wider)) in (("int", "bigint"), ("float", "double"))
        return False
