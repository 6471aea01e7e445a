"""Names that the formats of tables keep for themselves, in lower case."""

from __future__ import annotations

from typing import Final

BATCH: Final = "batch"
"""The folders of a Parquet table are `batch=N`, which readers take for a column."""

ICEBERGS_PARTITION: Final = "_kafka_partition"
"""The record's partition in an Iceberg table, where `_partition` is reserved."""

RESERVED: Final = {
    "delta": frozenset[str](),
    "parquet": frozenset({BATCH}),
    # Iceberg's metadata columns. It cannot read a table with a column of such a name.
    "iceberg": frozenset(
        {
            *("_file", "_pos", "_deleted", "_spec_id", "_row_id", "_last_updated_sequence_number"),
            ICEBERGS_PARTITION,
        }
    ),
}
"""By format."""
