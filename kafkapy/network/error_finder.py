"""Finds the errors of an answer, wherever its schema has an error code.

Every answer is looked through while metrics are on, and most have no error. So the loops over the arrays of
an answer are one function, which is generated when the first answer of its kind comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kafkapy.protocol.codec import execute, schema_of
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.schema import Struct

ERROR_CODES: Final = ("error_code", "partition_error_code")
"""The fields that Apache Kafka counts: the second one is AddPartitionsToTxn's name for the first."""

FindErrors: TypeAlias = "Callable[[TopMessage], list[int]]"

_finders: dict[type[TopMessage], FindErrors] = {}


def error_finder(response_class: type[TopMessage]) -> FindErrors:
    """A function that finds the error codes of an answer."""
    return _finders.get(response_class) or _generated(response_class)


def _generated(response_class: type[TopMessage]) -> FindErrors:
    lines = [
        "def find(o0):",
        "    found = []",
        *_loops(schema_of(response_class).root, 0),
        "    return found",
    ]
    names: dict[str, Any] = {}
    execute("\n".join(lines), f"<errors of {response_class.__name__}>", names)
    find: FindErrors = names["find"]
    _finders[response_class] = find
    return find


def _loops(struct: Struct, depth: int) -> list[str]:
    """The lines that look through the struct in o<depth>, if it has an error code."""
    indent, lines = "    " * (depth + 1), []
    for field in struct.fields:
        if field.name in ERROR_CODES:
            lines.append(f"{indent}if o{depth}.{field.name}:")
            lines.append(f"{indent}    found.append(o{depth}.{field.name})")
        elif field.is_array and field.struct is not None and (inside := _loops(field.struct, depth + 1)):
            lines.append(f"{indent}for o{depth + 1} in o{depth}.{field.name} or ():")
            lines += inside
    return lines
