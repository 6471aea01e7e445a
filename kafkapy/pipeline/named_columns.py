"""The columns that a definition names, such as `key:` does, among those of the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kafkapy.pipeline.pipeline_error import did_you_mean

if TYPE_CHECKING:
    from kafkapy.pipeline.formats.spark_types import SparkType, Struct


def column_problem(setting: str, names: Iterable[str], present: Sequence[str]) -> str | None:
    """Which of the columns that a setting names is not present, ignoring case; None if all are."""
    known = {one.lower() for one in present}
    for name in names:
        if name.lower() not in known:
            return (
                f"{setting}: the data has no column {name}{did_you_mean(name, present)}; "
                f"it has {', '.join(present[:20])}"
            )
    return None


def key_problem(keys: Iterable[str], columns: Struct) -> str | None:
    """Which of the columns `keys` the data lacks, ignoring case; None if it has all."""
    present = [one["name"] for one in columns["fields"]]
    for key in keys:
        problem = column_problem("key", [key], present)
        path = key.split(".")
        if problem is not None and _has_field(columns, path):
            return (
                f"key: {key} is a field within the column {path[0]}, and rows are matched by whole "
                f"columns; make it one: select: ['*', '{key} AS {path[-1]}'] and key: {path[-1]}"
            )
        if problem is not None:
            return problem
    return None


def _has_field(kind: SparkType, path: list[str]) -> bool:
    if not path:
        return True
    if not isinstance(kind, dict) or kind["type"] != "struct":
        return False
    found = [one["type"] for one in kind["fields"] if one["name"].lower() == path[0].lower()]
    return bool(found) and _has_field(found[0], path[1:])
