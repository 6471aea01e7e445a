"""What becomes of parsed records: rows, deletes, errors, or nothing.

A record that `where` leaves out of an upsert table deletes the row of its key, since the table holds what the
query gives for the last record of each key. It counts as left out all the same. Without a value in the key
columns, it names no row. One that a change stream leaves out (`changes`) does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WHERE: Final = "where"
CHANGES: Final = "changes"
UNDECIDED: Final = "undecided"


def is_deleting(parsed: DataFrame) -> Column:
    """Whether a record of an upsert table deletes the row of its key."""
    deleting = f.col("value").isNull()
    if "_deleted" in parsed.columns:
        deleting |= f.col("_deleted")
    if "_left_out" in parsed.columns:
        deleting |= f.coalesce(f.col("_left_out") == WHERE, f.lit(False))
    return deleting


def is_ignored(parsed: DataFrame, *, upsert: bool, keys: Sequence[str] = ()) -> Column:
    """Whether a record changes nothing in the table.

    `keys` are the columns that rows are matched by; without them, it is the record's key.
    """
    if "_left_out" not in parsed.columns:
        return f.lit(False)
    reason = f.col("_left_out")
    if not upsert:
        return reason.isNotNull()
    ignored = reason == CHANGES
    for key in keys:
        # By its record key it would delete other rows, as a tombstone does.
        keyless = f.col("value").isNotNull() & f.col("_data").getField(key).isNull()
        ignored |= (reason == WHERE) & keyless
    return f.coalesce(ignored, f.lit(False))


def is_undecided(parsed: DataFrame) -> Column:
    """Whether `where` may have left out a record, by what another table had then."""
    return f.col("_undecided") if "_undecided" in parsed.columns else f.lit(False)


def is_left_out(parsed: DataFrame, *, upsert: bool) -> Column:
    """Whether a record counts as left out, and not as a row.

    A delete of an upsert table counts as one in any case.
    """
    if "_left_out" not in parsed.columns:
        return f.lit(False)
    reason = f.col("_left_out")
    if not upsert:
        return reason.isNotNull()
    deletes = f.col("value").isNull()
    if "_deleted" in parsed.columns:
        deletes |= f.col("_deleted")
    return f.coalesce((reason == CHANGES) | ((reason == WHERE) & ~deletes), f.lit(False))
