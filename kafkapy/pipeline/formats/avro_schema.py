"""Avro schemas, read and checked without Spark and without an Avro library.

A schema is stored resolved: `named` has the named types (record, enum, fixed) by full name, and other places
refer to them by name. A name without a namespace gets the namespace `avro`, since Avro has no notation for
such a name within a record that has a namespace. Attributes that do not matter for decoding (doc, order,
logical types that Spark does not know) are dropped. Source: the Avro 1.12 specification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.pipeline.pipeline_error import PipelineError, did_you_mean

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED: Final = ("record", "enum", "fixed")
# by underlying type
LOGICAL: Final = {
    "int": ("date",),
    "long": ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"),
    "bytes": ("decimal",),
    "fixed": ("decimal",),
}
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True)
class AvroSchema:
    """A parsed schema.

    `root` is a type: a name, a list (union), or a mapping (array, map, primitive with a logical type).
    """

    root: Any
    named: dict[str, dict[str, Any]]

    @classmethod
    def parse(cls, text: str, references: Sequence[str] = ()) -> AvroSchema:
        """Parses the text of a schema.

        `references` are schemas whose named types the text uses. Each comes after those that it uses itself.
        """
        reader = _Reader()
        for one in references:
            reader.read(_loaded(one), "", "the referenced schema")
        return cls(reader.read(_loaded(text), "", "the schema"), reader.named)

    def text(self, root: Any = None) -> str:
        """The schema of `root` as JSON, with each named type defined where it is first used."""
        return json.dumps(self.expanded(self.root if root is None else root, set()))

    def expanded(self, kind: Any, defined: set[str]) -> Any:
        if isinstance(kind, list):
            return [self.expanded(one, defined) for one in kind]
        if isinstance(kind, dict):
            inner = next((name for name in ("items", "values") if name in kind), None)
            return kind if inner is None else {**kind, inner: self.expanded(kind[inner], defined)}
        if kind in PRIMITIVES or kind in defined:
            return kind
        defined.add(kind)
        definition = self.named[kind]
        if definition["type"] != "record":
            return definition
        fields = [{**one, "type": self.expanded(one["type"], defined)} for one in definition["fields"]]
        return {**definition, "fields": fields}


def branches(kind: Any) -> list[Any]:
    """The branches of a union without null.

    Any other type is its own only branch.
    """
    return [one for one in (kind if isinstance(kind, list) else [kind]) if one != "null"]


def is_optional(kind: Any) -> bool:
    return isinstance(kind, list) and "null" in kind


def _loaded(text: str) -> Any:
    stripped = text.strip()
    if stripped in PRIMITIVES:
        return stripped
    try:
        return json.loads(text)
    except ValueError as error:
        raise PipelineError(f"not an Avro schema: not JSON: {error}") from None


class _Reader:
    def __init__(self) -> None:
        self.named: dict[str, dict[str, Any]] = {}

    def read(self, value: Any, namespace: str, where: str) -> Any:
        if isinstance(value, str):
            return value if value in PRIMITIVES else self._known(value, namespace, where)
        if isinstance(value, list):
            return self._union(value, namespace, where)
        if not isinstance(value, dict) or "type" not in value:
            raise PipelineError(f"{where}: expected an Avro type, not {json.dumps(value)[:60]}")
        kind = value["type"]
        if kind == "error":
            kind = "record"
        if kind in _NAMED:
            return self._define(kind, value, namespace, where)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in value:
                raise PipelineError(f"{where}: the {kind} has no {inner!r}")
            return {"type": kind, inner: self.read(value[inner], namespace, f"{where}[]")}
        if isinstance(kind, str) and kind in LOGICAL and value.get("logicalType") in LOGICAL[kind]:
            return {"type": kind, **_logical(value, where)}
        return self.read(kind, namespace, where)

    def _known(self, name: str, namespace: str, where: str) -> str:
        for full in (_full_name(name, namespace), _full_name(name, "")):
            if full in self.named:
                return full
        near = did_you_mean(name, [*PRIMITIVES, *self.named])
        raise PipelineError(f"{where}: unknown Avro type {name!r}{near}")

    def _union(self, value: list[Any], namespace: str, where: str) -> Any:
        kinds = [self.read(one, namespace, where) for one in value]
        if any(isinstance(one, list) for one in kinds):
            raise PipelineError(f"{where}: a union is directly within a union, which Avro forbids")
        return kinds[0] if len(kinds) == 1 else kinds

    def _define(self, kind: str, value: dict[str, Any], namespace: str, where: str) -> str:
        name = value.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PipelineError(f"{where}: the {kind} needs a name of letters, digits and _, not {name!r}")
        full = _full_name(name, value.get("namespace", namespace))
        if full in self.named:
            raise PipelineError(f"{where}: {name} is defined twice")
        inner = full.rpartition(".")[0]
        definition: dict[str, Any] = {"type": kind, "name": full}
        if aliases := value.get("aliases"):
            definition["aliases"] = [_full_name(one, inner) for one in aliases]
        self.named[full] = definition
        if kind == "enum":
            if not isinstance(value.get("symbols"), list):
                raise PipelineError(f"{where}: the enum {name} has no list of symbols")
            definition |= {one: value[one] for one in ("symbols", "default") if one in value}
        elif kind == "fixed":
            if not isinstance(value.get("size"), int):
                raise PipelineError(f"{where}: the fixed type {name} has no size")
            definition["size"] = value["size"]
            if value.get("logicalType") in LOGICAL["fixed"]:
                definition |= _logical(value, where)
        else:
            definition["fields"] = self._fields(value.get("fields"), inner, where)
        return full

    def _fields(self, fields: Any, namespace: str, where: str) -> list[dict[str, Any]]:
        if not isinstance(fields, list):
            raise PipelineError(f"{where}: the record has no list of fields")
        read = []
        for one in fields:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str) or "type" not in one:
                raise PipelineError(f"{where}: a field needs a name and a type, not {json.dumps(one)[:60]}")
            name = one["name"]
            if not _NAME.fullmatch(name) or "." in name:
                raise PipelineError(f"{where}: a field's name has letters, digits and _ only, not {name!r}")
            path = name if where == "the schema" else f"{where}.{name}"
            kept = {key: one[key] for key in ("name", "aliases") if key in one}
            kept["type"] = self.read(one["type"], namespace, path)
            if "default" in one and self._fits(one["default"], kept["type"]):
                kept["default"] = one["default"]
            read.append(kept)
        return read

    def _fits(self, default: Any, kind: Any) -> bool:
        """Whether a default is of the type; a union's is of its first branch.

        Others count as none.
        """
        if isinstance(kind, list):
            return bool(kind) and self._fits(default, kind[0])
        definition = kind if isinstance(kind, dict) else self.named.get(kind, {"type": kind})
        name = definition["type"]
        if name == "record":
            return isinstance(default, dict) and all(
                self._fits(default[one["name"]], one["type"]) if one["name"] in default else "default" in one
                for one in definition.get("fields", ())
            )
        if name == "array":
            return isinstance(default, list) and all(self._fits(one, definition["items"]) for one in default)
        if name == "map":
            return isinstance(default, dict) and all(
                self._fits(one, definition["values"]) for one in default.values()
            )
        if name in ("int", "long"):
            return isinstance(default, int) and not isinstance(default, bool)
        if name in ("float", "double"):
            return isinstance(default, int | float) and not isinstance(default, bool)
        if name == "enum":
            return default in definition["symbols"]
        return isinstance(default, {"null": type(None), "boolean": bool}.get(name, str))


def _full_name(name: str, namespace: str | None) -> str:
    if "." in name:
        return name
    return f"{namespace or 'avro'}.{name}"


def _logical(value: dict[str, Any], where: str) -> dict[str, Any]:
    if value["logicalType"] != "decimal":
        return {"logicalType": value["logicalType"]}
    precision, scale = value.get("precision"), value.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= 38:
        raise PipelineError(f"{where}: decimal({precision}, {scale}) is not a DECIMAL of Spark's 38 digits")
    return {"logicalType": "decimal", "precision": precision, "scale": scale}
