"""Adding newly found JSON fields to the columns known so far. See inferred_json.py for the rules."""

from __future__ import annotations

from dataclasses import dataclass

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
    """A field that no column can take; `path` are names, and "*" for the elements of an array."""

    path: tuple[str, ...]
    reason: str

    @property
    def name(self) -> str:
        return ".".join(self.path).replace(".*", "[]")

    @property
    def json_path(self) -> str:
        """As get_json_object takes it."""
        return "$" + "".join("[*]" if step == "*" else f"['{step}']" for step in self.path)


def merged_columns(known: Struct, found: Struct) -> tuple[Struct, list[Refused]]:
    """The known columns with what is new in `found`, and the fields of `found` that cannot be columns.

    merged_columns(merged, found) is merged again: nothing is ever taken away or changed.
    """
    refused: list[Refused] = []
    return _merged_struct(known, found, (), refused), refused


def _merged_struct(known: Struct, found: Struct, path: tuple[str, ...], refused: list[Refused]) -> Struct:
    fields = {one["name"]: one["type"] for one in known["fields"]}
    by_lower_case = {name.lower(): name for name in fields}
    for name, kind in _once_each(found).items():
        where = (*path, name)
        holder = by_lower_case.setdefault(name.lower(), name)
        if not path and name.lower() in OWN_COLUMNS:
            refused.append(Refused(path=where, reason="bears the name of one of the table's own columns"))
        elif holder != name:
            refused.append(Refused(path=where, reason=f"differs from the column {holder} by case only"))
        elif name in fields:
            fields[name] = _merged(fields[name], kind, where, refused)
        else:
            fields[name] = _new(kind, where, refused)
    return struct_of([field(name, kind) for name, kind in fields.items()])


def _once_each(found: Struct) -> dict[str, SparkType]:
    """Spark's inference gives a field that an object has twice two times."""
    fields: dict[str, SparkType] = {}
    for one in found["fields"]:
        if fields.setdefault(one["name"], one["type"]) != one["type"]:
            fields[one["name"]] = "string"
    return fields


def _merged(known: SparkType, found: SparkType, path: tuple[str, ...], refused: list[Refused]) -> SparkType:
    """The known type, with what is new within structs."""
    if isinstance(known, dict) and isinstance(found, dict) and known["type"] == found["type"]:
        if known["type"] == "struct":
            return _merged_struct(known, found, path, refused)
        return array(_merged(known["elementType"], found["elementType"], (*path, "*"), refused))
    return known


def _new(found: SparkType, path: tuple[str, ...], refused: list[Refused]) -> SparkType:
    if isinstance(found, str):
        # Of as many digits as the longest number of this batch; the next one may have more.
        return "decimal(38,0)" if kind_of(found) == "decimal" else found
    if found["type"] == "struct":
        return _merged_struct(struct_of([]), found, path, refused)
    return array(_new(found["elementType"], (*path, "*"), refused))
