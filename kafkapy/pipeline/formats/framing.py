"""The schema registry's framing of a value: a zero byte, a 4-byte schema id, the payload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column


def is_framed(value: str) -> Column:
    """Whether the column's value is long enough and begins with the zero byte."""
    return (f.length(value) >= 5) & (f.substring(value, 1, 1) == f.lit(b"\0"))


def framed_id(value: str) -> Column:
    """The schema id (bigint) of a value that is framed."""
    return f.conv(f.hex(f.substring(value, 2, 4)), 16, 10).cast("bigint")


def unframed(value: str) -> Column:
    """The payload of a framed value."""
    return f.expr(f"substring({value}, 6)")
