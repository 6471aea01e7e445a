"""One reader's schema for records of several writers, and the conflicts between writers.

The reader's schema begins as the first writer's. The other schemas are merged into it in the order in which
they are met, so that columns are only ever added to the table:

- A field that a writer lacks is optional: it is null, or has its default, in that writer's records.
- A field keeps its first type. Values of another type are read by Avro's resolution rules (an int as a long,
  one branch of a union as that branch). Values that cannot be resolved become dead letters.
- int is read as BIGINT and float as DOUBLE: a later writer may promote them, and no table can change an INT
  column to BIGINT in place.
- Enums gain new symbols. Records with another name are the same record under an alias.

Avro's resolution compares only the stored types. It would read timestamp-millis as timestamp-micros, or a
decimal of scale 2 as one of scale 4, and be wrong by that factor. `logical_conflict` finds such writers.
"""

from __future__ import annotations

import copy
from typing import Any

from kafkapy.pipeline.formats.avro_schema import PRIMITIVES, AvroSchema, branches, is_optional


def widened(schema: AvroSchema) -> AvroSchema:
    """The reader's schema that begins with this writer's."""
    named = {
        name: {
            **one,
            "fields": [{**inner, "type": _widened(inner["type"])} for inner in one["fields"]],
        }
        if one["type"] == "record"
        else one
        for name, one in schema.named.items()
    }
    return AvroSchema(_widened(schema.root), copy.deepcopy(named))


def _widened(kind: Any) -> Any:
    if isinstance(kind, list):
        kinds: list[Any] = []
        for one in map(_widened, kind):
            if one not in kinds:
                kinds.append(one)
        return kinds[0] if len(kinds) == 1 else kinds
    if isinstance(kind, dict):
        return {
            name: _widened(value) if name in ("items", "values") else value for name, value in kind.items()
        }
    return {"int": "long", "float": "double"}.get(kind, kind)


def evolved(reader: AvroSchema, writer: AvroSchema) -> AvroSchema:
    """The reader's schema with the additions of this writer's.

    It is idempotent: evolved(evolved(r, w), w) is evolved(r, w).
    """
    further = widened(writer)
    named = copy.deepcopy(reader.named)
    for name, definition in further.named.items():
        named.setdefault(name, definition)
    merging = _Merging(named, further.named)
    return AvroSchema(merging.merged(reader.root, further.root), named)


class _Merging:
    def __init__(self, named: dict[str, dict[str, Any]], further: dict[str, dict[str, Any]]) -> None:
        self._named, self._further = named, further
        self._done: set[tuple[str, str]] = set()

    def merged(self, known: Any, new: Any) -> Any:
        ours, theirs = branches(known), branches(new)
        if len(ours) == len(theirs) == 1:
            kinds = [self._merged_one(ours[0], theirs[0])]
        elif len(ours) > 1:
            kinds = [*ours, *(one for one in theirs if not self._has(ours, one))]
        else:
            kinds = ours
        if is_optional(known) or is_optional(new):
            # A default belongs to the first branch.
            kinds = [*kinds, "null"] if isinstance(known, list) and known[0] != "null" else ["null", *kinds]
        return kinds[0] if len(kinds) == 1 else kinds

    def _has(self, ours: list[Any], one: Any) -> bool:
        """Whether the union has the branch; records and enums of the same name are merged at once."""
        for mine in ours:
            if mine == one or _container(mine) == _container(one) is not None:
                self._merged_one(mine, one)
                return True
        return False

    def _merged_one(self, known: Any, new: Any) -> Any:
        if isinstance(known, dict) and isinstance(new, dict) and known["type"] == new["type"]:
            for inner in ("items", "values"):
                if inner in known:
                    return {**known, inner: self.merged(known[inner], new[inner])}
        if isinstance(known, str) and isinstance(new, str) and {known, new}.isdisjoint(PRIMITIVES):
            self._merge_named(known, new)
        return known

    def _merge_named(self, known: str, new: str) -> None:
        ours, theirs = self._named[known], self._further[new]
        if (known, new) in self._done or ours["type"] != theirs["type"]:
            return
        self._done.add((known, new))
        if known != new and new not in ours.get("aliases", ()):
            ours["aliases"] = [*ours.get("aliases", ()), new]
        if ours["type"] == "enum":
            ours["symbols"] = [
                *ours["symbols"],
                *(one for one in theirs["symbols"] if one not in ours["symbols"]),
            ]
        elif ours["type"] == "record":
            ours["fields"] = self._merged_fields(ours["fields"], theirs["fields"])

    def _merged_fields(self, known: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
        theirs = {one["name"]: one for one in new}
        fields = []
        for one in known:
            other = theirs.pop(one["name"], None)
            if other is None:
                fields.append(_with_default(one))
            else:
                merged = {**one, "type": self.merged(one["type"], other["type"])}
                fields.append(_with_fitting_default(merged))
        return [*fields, *(_with_default(one) for one in theirs.values())]


def _container(kind: Any) -> str | None:
    return kind["type"] if isinstance(kind, dict) and kind["type"] in ("array", "map") else None


def _with_default(one: dict[str, Any]) -> dict[str, Any]:
    """The field with a default, so that it may be missing: null unless it has its own."""
    if "default" in one:
        return one
    kind = one["type"]
    others = branches(kind)
    return {**one, "type": ["null", *others], "default": None}


def _with_fitting_default(one: dict[str, Any]) -> dict[str, Any]:
    """The field with its default's type as the first branch of its union, as Avro requires."""
    kind = one["type"]
    if "default" in one and isinstance(kind, list) and (kind[0] == "null") != (one["default"] is None):
        others = branches(kind)
        return {**one, "type": ["null", *others] if one["default"] is None else [*others, "null"]}
    return one


def logical_conflict(writer: AvroSchema, reader: AvroSchema) -> str | None:
    """Describes a field whose number would be read with another meaning; None if there is none."""
    return _conflict(writer, writer.root, reader, reader.root, "")


def _conflict(writer: AvroSchema, theirs: Any, reader: AvroSchema, ours: Any, path: str) -> str | None:
    left, right = branches(theirs), branches(ours)
    if len(left) != 1 or len(right) != 1:
        return None
    wrote, reads = _defined(writer, left[0]), _defined(reader, right[0])
    if wrote["type"] == reads["type"] == "record":
        known = {one["name"]: one for one in wrote["fields"]}
        for one in reads["fields"]:
            names = (one["name"], *one.get("aliases", ()))
            found = next((known[name] for name in names if name in known), None)
            if found is not None:
                where = f"{path}.{one['name']}".removeprefix(".")
                if conflict := _conflict(writer, found["type"], reader, one["type"], where):
                    return conflict
        return None
    for inner in ("items", "values"):
        if inner in wrote and inner in reads:
            return _conflict(writer, wrote[inner], reader, reads[inner], f"{path}[]")
    meant, read = _meaning(wrote), _meaning(reads)
    if "decimal" in (wrote.get("logicalType"), reads.get("logicalType")):
        if meant and read and wrote["scale"] == reads["scale"] and wrote["precision"] <= reads["precision"]:
            return None
    elif not meant or not read:
        return None  # only one of the two schemas gives the number a logical type
    if meant == read:
        return None
    return f"{path} is {meant or wrote['type']} where the table has {read or reads['type']}"


def _defined(schema: AvroSchema, kind: Any) -> dict[str, Any]:
    if isinstance(kind, dict):
        return kind
    return schema.named.get(kind, {"type": kind})


def _meaning(kind: dict[str, Any]) -> str:
    logical = str(kind.get("logicalType", ""))
    return f"decimal({kind['precision']},{kind['scale']})" if logical == "decimal" else logical
