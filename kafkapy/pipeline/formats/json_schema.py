"""Turns a JSON Schema into columns, with these types of Spark.

    object with properties          STRUCT
    object with additionalProperties  MAP<STRING, ...>
    array with items                ARRAY
    integer                         BIGINT (format int32: INT)
    number                          DOUBLE (format float: FLOAT)
    boolean                         BOOLEAN
    string                          STRING (format date-time: TIMESTAMP; date: DATE)
    string, contentEncoding base64  BINARY
    several types, none, anything   STRING, the JSON text

`required` properties that may not be null are NOT NULL. `$ref` is followed within the document ("#/..."). The
properties of all parts of `allOf` are merged. `anyOf` and `oneOf` with one alternative besides null are that
alternative. Other constraints (pattern, minimum, enum ...) restrict values, not types, and are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkapy.pipeline.formats.spark_types import SparkType, Struct, array, field, kind_of, map_of, struct_of
from kafkapy.pipeline.pipeline_error import PipelineError

_BUNDLE: Final = "kafkapy: referenced"
_SIMPLE: Final = {"boolean": "boolean", "integer": "long", "number": "double", "string": "string"}
_FORMATS: Final = {
    ("string", "date-time"): "timestamp",
    ("string", "date"): "date",
    ("integer", "int32"): "integer",
    ("number", "float"): "float",
}


def bundled(document: Any, references: Mapping[str, Any]) -> Any:
    """The document with those that it refers to by name, and that these refer to, within."""
    if not references or not isinstance(document, dict):
        return document
    places = {name: f"#/{_BUNDLE}/{name.replace('~', '~0').replace('/', '~1')}" for name in references}

    def moved(value: Any, own: str) -> Any:
        if isinstance(value, list):
            return [moved(one, own) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {name: moved(one, own) for name, one in value.items()}
        if isinstance(ref := value.get("$ref"), str):
            name, _, path = ref.partition("#")
            inner["$ref"] = places.get(name, name + "#" if name else own) + path
        return inner

    whole: dict[str, Any] = moved(document, "#")
    return {**whole, _BUNDLE: {name: moved(one, places[name]) for name, one in references.items()}}


def parse_json_schema(document: Any) -> Struct:
    """The struct of a schema whose root is an object with properties."""
    kind, _ = _Reader(document).read(document, "", ())
    if not isinstance(kind, dict) or kind_of(kind) != "struct":
        raise PipelineError(
            "the JSON Schema describes no object with properties, and columns come from properties "
            '({"type": "object", "properties": {...}})'
        )
    return kind


class _Reader:
    def __init__(self, document: Any) -> None:
        self._document = document

    def read(self, schema: Any, path: str, refs: tuple[str, ...]) -> tuple[SparkType, bool]:
        """The type, and whether the value may be null.

        `refs` are the references followed so far.
        """
        where = path or "the JSON Schema"
        if schema is True or schema == {}:
            return "string", True
        if not isinstance(schema, dict):
            raise PipelineError(f"{where}: expected a schema, not {str(schema)[:60]}")
        if "$ref" in schema:
            ref = schema["$ref"]
            if ref in refs:
                raise PipelineError(f"{where}: {ref} refers to itself; a table's columns cannot be recursive")
            return self.read(self._target(ref, where), path, (*refs, ref))
        if "allOf" in schema:
            return self.read(self._merged(schema, where), path, refs)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._alternatives(schema[several], path, refs)
        return self._typed(schema, path, refs)

    def _target(self, ref: Any, where: str) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise PipelineError(f"{where}: $ref {ref!r} is in another document; put it into this one")
        found = self._document
        for step in ref[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise PipelineError(f"{where}: $ref {ref!r} does not exist")
            found = found[name]
        return found

    def _merged(self, schema: dict[str, Any], where: str) -> dict[str, Any]:
        """`allOf` of objects as one object."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        parts = [*schema["allOf"], {name: value for name, value in schema.items() if name != "allOf"}]
        for part in parts:
            one: Any = part
            for _ in range(20):
                if not (isinstance(one, dict) and "$ref" in one):
                    break
                one = self._target(one["$ref"], where)
            if not isinstance(one, dict) or "$ref" in one:
                raise PipelineError(f"{where}: expected schemas in allOf, not {str(part)[:60]}")
            if "allOf" in one:
                one = self._merged(one, where)
            properties |= one.get("properties", {})
            required += one.get("required", [])
        return {"type": "object", "properties": properties, "required": required}

    def _alternatives(self, several: Any, path: str, refs: tuple[str, ...]) -> tuple[SparkType, bool]:
        real = [one for one in several if not (isinstance(one, dict) and one.get("type") == "null")]
        nullable = len(real) < len(several)
        kinds = [self.read(one, path, refs) for one in real]
        same = bool(kinds) and all(kind == kinds[0][0] for kind, _ in kinds)
        return (kinds[0][0] if same else "string"), nullable or not same or any(null for _, null in kinds)

    def _typed(self, schema: dict[str, Any], path: str, refs: tuple[str, ...]) -> tuple[SparkType, bool]:
        types = schema.get("type", "object" if "properties" in schema else [])
        types = [types] if isinstance(types, str) else list(types)
        real = [one for one in types if one != "null"]
        nullable = len(real) < len(types) or not types or None in schema.get("enum", ())
        if set(real) == {"integer", "number"}:
            real = ["number"]
        if len(real) != 1:
            return "string", nullable
        (kind,) = real
        if kind == "object":
            return self._object(schema, path, refs), nullable
        if kind == "array":
            items = schema.get("items", True)
            return array(self.read(items, f"{path}[]", refs)[0]), nullable
        if kind not in _SIMPLE:
            raise PipelineError(f"{path or 'the JSON Schema'}: unknown type {kind!r}")
        if kind == "string" and schema.get("contentEncoding") == "base64":
            return "binary", nullable
        return _FORMATS.get((kind, str(schema.get("format"))), _SIMPLE[kind]), nullable

    def _object(self, schema: dict[str, Any], path: str, refs: tuple[str, ...]) -> SparkType:
        properties = schema.get("properties") or {}
        if not properties:
            further = schema.get("additionalProperties", True)
            return map_of("string", self.read({} if further is False else further, f"{path}{{}}", refs)[0])
        fields = []
        for name, inner in properties.items():
            kind, nullable = self.read(inner, f"{path}.{name}".removeprefix("."), refs)
            fields.append(field(name, kind, nullable=nullable or name not in schema.get("required", ())))
        return struct_of(fields)
