"""Schemas that tests register."""

from __future__ import annotations

import json
from typing import Any


def record(*fields: tuple[str, Any] | dict[str, Any], name: str = "Order") -> str:
    """An Avro record; a field is a name and a type, or an object."""
    shown = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": shown}, separators=(",", ":"))


def body(schema: str, kind: str | None = None, **further: Any) -> dict[str, Any]:
    """The body of a request with a schema."""
    return {"schema": schema, **({"schemaType": kind} if kind else {}), **further}


ONE = record(("id", "int"))
WITH_OPTIONAL = record(("id", "int"), {"name": "note", "type": "string", "default": ""})
WITH_REQUIRED = record(("id", "int"), ("note", "string"))
