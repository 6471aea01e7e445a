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


@dataclass(frozen=True)
class Counts:
    """The rows of a batch, and its dead letters by reason."""

    rows: int
    reasons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, parsed: DataFrame) -> Counts:
        """Counts records, some of which have an `_error`."""
        error = f.col("_error")
        reason = f.when(error.isNull(), f.lit(None))
        for beginning in REASONS:
            reason = reason.when(f.startswith(error, f.lit(beginning)), beginning)
        # Not by groups: their shuffle would be more work than the counting.
        told = parsed.select(reason.otherwise(OTHER).alias("reason"))
        counted = [f.count_if(f.col("reason") == one).alias(one) for one in (*REASONS, OTHER)]
        rows, *found = told.agg(f.count_if(f.col("reason").isNull()), *counted).first()
        return cls(rows, {one: count for one, count in zip((*REASONS, OTHER), found, strict=True) if count})

    @property
    def dead_letters(self) -> int:
        return sum(self.reasons.values())

    @property
    def records(self) -> int:
        return self.rows + self.dead_letters
