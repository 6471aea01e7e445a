"""Messages that kafka-python lacks have the fields of Kafka's definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from kafkapy.commands import messages
from kafkapy.protocol.schema import SCHEMAS

_NAMES = sorted(path.name.removesuffix(".json") for path in files(messages).iterdir() if ".json" in path.name)


def _definitions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in SCHEMAS.glob("*.json"):
        found |= json.loads(path.read_text())
    return found


def _fields(fields: list[dict[str, Any]], nullable: str) -> Iterator[Any]:
    for field in fields:
        inner = list(_fields(field.get("fields", ()), nullable))
        yield (
            field["name"],
            field["type"],
            field["versions"],
            field.get(nullable),
            field.get("default"),
            inner,
        )


@pytest.mark.parametrize("name", _NAMES)
def test_a_message_has_kafkas_fields(name: str) -> None:
    ours = json.loads((files(messages) / f"{name}.json").read_text())
    definition = _definitions()[name]
    assert ours["name"] == name
    assert [ours[key] for key in ("apiKey", "type", "validVersions", "flexibleVersions")] == [
        definition[key] for key in ("key", "kind", "versions", "flexible")
    ]
    assert list(_fields(ours["fields"], "nullableVersions")) == list(
        _fields(definition["fields"], "nullable")
    )


@pytest.mark.parametrize("name", _NAMES)
def test_kafka_python_makes_a_class_of_it(name: str) -> None:
    assert getattr(messages, name).name == name
