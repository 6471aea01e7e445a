"""Values of columns from the texts that databases write for them.

A text that its column cannot hold exactly has no value, as in JSON (`json_exactness.py`):

    SMALLINT, INT, BIGINT   digits
    DECIMAL(p,s)            digits, of which those beyond s are zeros
    FLOAT, DOUBLE           a finite number; a whole one beyond 2^24 and 2^53 only if it is exact
    BOOLEAN                 1, 0, true, false
    DATE, TIMESTAMP         ISO 8601, also with a space for the T, of the years 1 to 9999, up to microseconds;
                            without a zone in UTC
    STRING                  any text

There are no others: a database writes no struct, array or map as a text, and bytes in ways of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkapy.pipeline.formats.spark_types import SparkType, decimal_digits, kind_of

if TYPE_CHECKING:
    from pyspark.sql import Column

KINDS: Final = (
    *("string", "boolean", "short", "integer", "long", "decimal", "float", "double"),
    *("date", "timestamp", "timestamp_ntz"),
)
_WHOLE_NUMBER: Final = r"^[-+]?\d+$"
_NUMBER: Final = r"^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$"
_EXACT: Final = {"float": 2.0**24, "double": 2.0**53}
_BEYOND_LONGS: Final = 2.0**63
_DATE: Final = r"^(?!0000)\d{4}-\d\d-\d\d"
_DATE_AND_TIME: Final = rf"{_DATE}[T ]\d\d:\d\d:\d\d(\.\d{{1,6}}0*)?"
_ZONE: Final = r"(Z|[-+]\d\d:\d\d)$"


def value_of(kind: SparkType, text: Column) -> Column:
    """The value that a column of this type has for a text.

    Null if there is none.
    """
    from pyspark.sql import functions as f

    assert isinstance(kind, str)
    assert kind_of(kind) in KINDS
    if kind == "string":
        return text
    if kind == "boolean":
        lower = f.lower(text)
        return f.when(lower.isin("1", "true"), True).when(lower.isin("0", "false"), False)
    if kind_of(kind) == "decimal":
        return _matching(text, rf"^[-+]?\d+(\.\d{{0,{decimal_digits(kind)[1]}}}0*)?$").try_cast(kind)
    if kind in _EXACT:
        value = _matching(text, _NUMBER).try_cast(kind)
        whole = f.rlike(text, f.lit(_WHOLE_NUMBER)) & (f.abs(value) >= _EXACT[kind])
        exact = (f.abs(value) < _BEYOND_LONGS) & (value.try_cast("long") == text.try_cast("long"))
        return f.when((f.abs(value) < float("inf")) & (~whole | f.coalesce(exact, f.lit(False))), value)
    if kind == "date":
        return _matching(text, f"{_DATE}$").try_cast(kind)
    if kind == "timestamp":
        in_utc = f.concat(_matching(text, f"{_DATE_AND_TIME}$"), f.lit("Z"))
        return f.coalesce(in_utc, _matching(text, f"{_DATE_AND_TIME}{_ZONE}")).try_cast(kind)
    if kind == "timestamp_ntz":
        return _matching(text, f"{_DATE_AND_TIME}$").try_cast(kind)
    return _matching(text, _WHOLE_NUMBER).try_cast(kind)


def _matching(text: Column, pattern: str) -> Column:
    from pyspark.sql import functions as f

    return f.when(f.rlike(text, f.lit(pattern)), text)
