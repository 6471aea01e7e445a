"""Adds newly found JSON fields to the columns known so far.

See inferred_json.py for the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkapy.pipeline.formats.spark_types import (
    OWN_COLUMNS,
    SparkType,
    Struct,
    array,
    field,
    struct_of,
)


def merged_columns(
    known: Struct,
    found: Struct,
    *,
    taken: Collection[str] = OWN_COLUMNS,
    forbidden: str = "",
    rows: Collection[str] = ("",),
) -> tuple[Struct, list[str]]:
    """The known columns with the new ones of `found`, and the fields that cannot be columns.

    `taken` are the names, in lower case, that the table has for itself; `forbidden` are the characters that
    a column name of the table may not have; `rows` are the paths at which the table's columns begin. It is
    idempotent: merged_columns(merged, found) returns `merged`. Columns are never removed or changed.
    """
    merging = _Merging(taken, forbidden, rows)
    return merging.structs(known, found, ""), merging.refused


class _Merging:
    def __init__(self, taken: Collection[str], forbidden: str, rows: Collection[str]) -> None:
        self._taken, self._rows = taken, rows
        self._forbidden = frozenset(forbidden)
        self.refused: list[str] = []

    def structs(self, known: Struct, found: Struct, path: str) -> Struct:
        fields = {one["name"]: one["type"] for one in known["fields"]}
        by_lower_case = {name.lower(): name for name in fields}
        for name, kind in ((one["name"], one["type"]) for one in found["fields"]):
            where = f"{path}{name}"
            if self._is_refused(name, path, by_lower_case):
                self.refused.append(where)
                continue
            by_lower_case[name.lower()] = name
            merged = self._types(fields[name], kind, where) if name in fields else self._new(kind, where)
            if not _is_empty(merged):
                fields[name] = merged
        return struct_of([field(name, kind) for name, kind in fields.items()])

    def _is_refused(self, name: str, path: str, by_lower_case: Mapping[str, str]) -> bool:
        """Whether a field cannot become a column; unnamed_fields.py says why."""
        taken = path in self._rows and name.lower() in self._taken
        other_case = by_lower_case.get(name.lower(), name) != name
        return taken or other_case or not self._forbidden.isdisjoint(name)

    def _types(self, known: SparkType, found: SparkType, path: str) -> SparkType:
        """The known type with the new fields of its structs."""
        if isinstance(known, dict) and isinstance(found, dict) and known["type"] == found["type"]:
            if known["type"] == "struct":
                return self.structs(known, found, f"{path}.")
            return array(self._types(known["elementType"], found["elementType"], f"{path}[]"))
        return known

    def _new(self, found: SparkType, path: str) -> SparkType:
        if isinstance(found, str):
            return found
        if found["type"] == "struct":
            return self.structs(struct_of([]), found, f"{path}.")
        return array(self._new(found["elementType"], f"{path}[]"))


def _is_empty(kind: SparkType) -> bool:
    """Whether it is a struct whose fields were all refused.

    No table can store such a struct.
    """
    if isinstance(kind, dict) and kind["type"] == "array":
        return _is_empty(kind["elementType"])
    return isinstance(kind, dict) and not kind["fields"]
