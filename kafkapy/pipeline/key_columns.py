"""The columns that rows are matched by (`key:`), among those of the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkapy.pipeline.pipeline_error import did_you_mean

if TYPE_CHECKING:
    from kafkapy.pipeline.formats.spark_types import SparkType, Struct


def key_problem(keys: Iterable[str], columns: Struct) -> str | None:
    """Which of the columns `keys` the data lacks, ignoring case; None if it has all."""
    present = [one["name"] for one in columns["fields"]]
    for key in keys:
        if key.lower() in map(str.lower, present):
            continue
        path = key.split(".")
        if _has_field(columns, path):
            return (
                f"key: {key} is a field within the column {path[0]}, and rows are matched by whole "
                f"columns; make it one: select: ['*', '{key} AS {path[-1]}'] and key: {path[-1]}"
            )
        return (
            f"key: the data has no column {key}{did_you_mean(key, present)}; it has {', '.join(present[:20])}"
        )
    return None


def _has_field(kind: SparkType, path: list[str]) -> bool:
    if not path:
        return True
    if not isinstance(kind, dict) or kind["type"] != "struct":
        return False
    found = [one["type"] for one in kind["fields"] if one["name"].lower() == path[0].lower()]
    return bool(found) and _has_field(found[0], path[1:])
