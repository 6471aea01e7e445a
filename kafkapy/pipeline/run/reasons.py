"""The reasons of dead letters, as metrics name them.

An error quotes fields and values of its record. A label of a metric must not have these: anybody who writes
into the topic could make as many labels as there are records, and read others' data in a dashboard. So an
error is counted by how it begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OTHER: Final = "other"
# Longer ones first, if one begins as another.
REASONS: Final = (
    "is not valid JSON",
    "is not a JSON object",
    "is not UTF-8",
    "is not Avro of the schema",
    "is not Protobuf",
    "is a tombstone without a key",
    "is a message of the source's log",
    "is a message",
    "is no change",
    "is a change without a row",
    "truncates the source table",
    "drops the source table",
    "changes the key column",
    "does not have the column",
    "cannot be computed",
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
    "has an unknown",
)


@dataclass(frozen=True)
class Counts:
    """The records of a batch by what became of them: rows, dead letters by reason, or nothing."""

    rows: int
    reasons: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0

    @classmethod
    def of(cls, parsed: DataFrame, left_out: Column) -> Counts:
        """Counts records, some of which have an `_error`; `left_out` is a condition for the others."""
        error = f.col("_error")
        reason = f.when(error.isNull(), f.lit(None))
        for beginning in REASONS:
            reason = reason.when(f.startswith(error, f.lit(beginning)), beginning)
        # Not by groups: their shuffle would be more work than the counting.
        left = (left_out & error.isNull()).alias("left")
        told = parsed.select(reason.otherwise(OTHER).alias("reason"), left)
        counted = [f.count_if(f.col("reason") == one).alias(one) for one in (*REASONS, OTHER)]
        good, without_row, *found = told.agg(
            f.count_if(f.col("reason").isNull()), f.count_if(f.col("left")), *counted
        ).first()
        reasons = zip((*REASONS, OTHER), found, strict=True)
        return cls(good - without_row, {one: count for one, count in reasons if count}, without_row)

    @property
    def dead_letters(self) -> int:
        return sum(self.reasons.values())

    @property
    def records(self) -> int:
        return self.rows + self.dead_letters + self.left_out
