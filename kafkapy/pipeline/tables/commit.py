"""A commit of a table, as its lineage names it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Commit:
    """What is known of the commit that wrote a file; empty where the table has forgotten it.

    `version` is a version of a Delta table, a snapshot of an Iceberg table, or a folder of Parquet files.
    `written` is its time in ISO 8601.
    """

    version: str = ""
    operation: str = ""
    written: str = ""
    file: str = ""
