"""The reasons of dead letters, as metrics name them.

An error quotes fields and values of its record. A label of a metric must not have these: anybody who writes
into the topic could make as many labels as there are records, and read others' data in a dashboard. So an
error is counted by how it begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OTHER: Final = "other"
# Longer ones first, if one begins as another.
REASONS: Final = (
    "is not valid JSON",
    "is not a JSON object",
    "is not UTF-8",
    "is not Avro of the schema",
    "is not Protobuf",
    "is a tombstone without a key",
    "is a message",
    "does not match the schema",
    "has a field",
    "has an object with a name twice",
    "has a value that fits no column",
    "has an empty value",
    "has an empty text",
    "has no key",
    "has no value in the key column",
    "has no schema id",
    "has the schema id",
)


def by_reason(bad: DataFrame) -> dict[str, int]:
    """The number of records of each reason; all of them have an `_error`."""
    error = f.col("_error")
    reason = f.when(f.lit(False), OTHER)
    for beginning in REASONS:
        reason = reason.when(f.startswith(error, f.lit(beginning)), beginning)
    found = bad.groupBy(reason.otherwise(OTHER).alias("reason")).count().collect()
    return {row["reason"]: row["count"] for row in found}
