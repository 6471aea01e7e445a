"""Adds newly found JSON fields to the columns known so far.

See inferred_json.py for the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkapy.pipeline.formats.spark_types import (
    OWN_COLUMNS,
    SparkType,
    Struct,
    array,
    field,
    kind_of,
    struct_of,
)


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A field that cannot become a column.

    `path` has names, and "*" for the elements of an array.
    """

    path: tuple[str, ...]
    reason: str

    @property
    def name(self) -> str:
        return ".".join(self.path).replace(".*", "[]")


def json_path(path: Sequence[str]) -> str:
    """The path of a field for get_json_object."""
    return "$" + "".join("[*]" if step == "*" else f"['{step}']" for step in path)


def merged_columns(
    known: Struct, found: Struct, *, taken: Collection[str] = OWN_COLUMNS, forbidden: str = ""
) -> tuple[Struct, list[Refused]]:
    """The known columns with the new ones of `found`, and the fields that cannot be columns.

    `taken` are the names, in lower case, that the table has for itself; `forbidden` are the characters that
    a column name of the table may not have. It is idempotent: merged_columns(merged, found) returns `merged`.
    Columns are never removed or changed.
    """
    merging = _Merging(taken, forbidden)
    return merging.structs(known, found, ()), merging.refused


def hides_fields(known: SparkType, found: SparkType) -> bool:
    """Whether `found` may hide new fields of a known struct.

    It may if it has another type in place of the struct: Spark infers STRING for a mixture of types, which
    hides the fields of the objects.
    """
    if isinstance(known, str):
        return False
    if isinstance(found, str) or known["type"] != found["type"]:
        return _has_structs(known)
    if known["type"] == "array":
        return hides_fields(known["elementType"], found["elementType"])
    kinds = {one["name"]: one["type"] for one in known["fields"]}
    return any(
        one["name"] in kinds and hides_fields(kinds[one["name"]], one["type"]) for one in found["fields"]
    )


def spellings(kind: SparkType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of fields that differ from another one of their struct only by case."""
    if isinstance(kind, str):
        return
    if kind["type"] == "array":
        yield from spellings(kind["elementType"], (*path, "*"))
        return
    fields = _once_each(kind)
    times = Counter(name.lower() for name in fields)
    yield from ((*path, name) for name in fields if times[name.lower()] > 1)
    for name, inner in fields.items():
        yield from spellings(inner, (*path, name))


def by_frequency(kind: Struct, counts: Mapping[tuple[str, ...], int], path: tuple[str, ...] = ()) -> Struct:
    """The struct, where of fields that differ only by case the most frequent one comes first."""

    def ordered(kind: SparkType, path: tuple[str, ...]) -> SparkType:
        if isinstance(kind, str):
            return kind
        if kind["type"] == "array":
            return array(ordered(kind["elementType"], (*path, "*")))
        return by_frequency(kind, counts, path)

    first: dict[str, int] = {}
    for number, one in enumerate(kind["fields"]):
        first.setdefault(one["name"].lower(), number)

    def place(one: Mapping[str, Any]) -> tuple[int, int]:
        return first[one["name"].lower()], -counts.get((*path, one["name"]), 0)

    fields = sorted(kind["fields"], key=place)
    return struct_of([field(one["name"], ordered(one["type"], (*path, one["name"]))) for one in fields])


class _Merging:
    def __init__(self, taken: Collection[str], forbidden: str) -> None:
        self._taken = taken
        self._forbidden = frozenset(forbidden)
        self.refused: list[Refused] = []

    def structs(self, known: Struct, found: Struct, path: tuple[str, ...]) -> Struct:
        fields = {one["name"]: one["type"] for one in known["fields"]}
        by_lower_case = {name.lower(): name for name in fields}
        for name, kind in _once_each(found).items():
            where = (*path, name)
            if reason := self._why_not(name, path, by_lower_case):
                self.refused.append(Refused(path=where, reason=reason))
                continue
            by_lower_case[name.lower()] = name
            merged = self._types(fields[name], kind, where) if name in fields else self._new(kind, where)
            if not _is_empty(merged):
                fields[name] = merged
        return struct_of([field(name, kind) for name, kind in fields.items()])

    def _why_not(self, name: str, path: tuple[str, ...], by_lower_case: Mapping[str, str]) -> str | None:
        """Why a field cannot become a column, completing "a field, which ..."; None if it can."""
        holder = by_lower_case.get(name.lower(), name)
        if not path and name.lower() in self._taken:
            return "has the name of one of the table's own columns"
        if holder != name:
            return f"differs from the column {holder} by case only"
        if not self._forbidden.isdisjoint(name):
            return "has a name that the table does not allow for a column"
        return None

    def _types(self, known: SparkType, found: SparkType, path: tuple[str, ...]) -> SparkType:
        """The known type with the new fields of its structs."""
        if isinstance(known, dict) and isinstance(found, dict) and known["type"] == found["type"]:
            if known["type"] == "struct":
                return self.structs(known, found, path)
            return array(self._types(known["elementType"], found["elementType"], (*path, "*")))
        return known

    def _new(self, found: SparkType, path: tuple[str, ...]) -> SparkType:
        if isinstance(found, str):
            # Spark infers the digits of this batch's longest number; the next batch may have more.
            return "decimal(38,0)" if kind_of(found) == "decimal" else found
        if found["type"] == "struct":
            return self.structs(struct_of([]), found, path)
        return array(self._new(found["elementType"], (*path, "*")))


def _has_structs(kind: SparkType) -> bool:
    if isinstance(kind, dict) and kind["type"] == "array":
        return _has_structs(kind["elementType"])
    return isinstance(kind, dict)


def _is_empty(kind: SparkType) -> bool:
    """Whether it is a struct whose fields were all refused.

    No table can store such a struct.
    """
    if isinstance(kind, dict) and kind["type"] == "array":
        return _is_empty(kind["elementType"])
    return isinstance(kind, dict) and not kind["fields"]


def _once_each(found: Struct) -> dict[str, SparkType]:
    """The fields by name.

    Spark's inference returns a field twice if an object has it twice.
    """
    fields: dict[str, SparkType] = {}
    for one in found["fields"]:
        if fields.setdefault(one["name"], one["type"]) != one["type"]:
            fields[one["name"]] = "string"
    return fields
