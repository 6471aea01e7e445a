"""A fact of Kafka's protocol and files is defined in one module, which others import."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[1]

HOLDERS = ("protocol", "storage", "kafkapy/coordination", "kafkapy/groups/modern")
"""The folders whose facts everything above them may import."""

OTHER_FACTS = frozenset(
    [
        "CHUNK",
        "CONFIG",
        "FULL",
        "INT16",
        "INT32",
        "INT64",
        "LOOK_SECONDS",
        "MASK",
        "MOST_NAMES",
        "NO_EPOCH",
        "NO_OFFSET",
        "RETRY_SECONDS",
        "UNKNOWN",
        "UNSET",
        "VALUE_VERSION",
        "VERSION",
    ]
)
"""Names that mean another thing in each module that has them, though the values are equal."""


class Definition(NamedTuple):
    """A constant of a module."""

    name: str
    value: str
    module: str


def definitions() -> Iterator[Definition]:
    """The constants of all modules but generated ones."""
    for folder in ("protocol", "storage", "kafkapy"):
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            module = path.relative_to(CHECKOUT)
            if module.parts[1] in {"messages", "protocol", "storage"}:  # generated, or the same by a link
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
                value = getattr(node, "value", None)
                if (
                    isinstance(target, ast.Name)
                    and target.id.isupper()
                    and value is not None
                    and not _is_type(value)
                ):
                    yield Definition(target.id.strip("_"), ast.unparse(value), str(module))


def _is_type(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in {"TypeVar", "ParamSpec"}


def test_no_module_defines_again_what_a_lower_one_has() -> None:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in definitions():
        found[each.name, each.value].append(each.module)
    again = {
        (name, value): modules
        for (name, value), modules in found.items()
        if len(modules) > 1 and name not in OTHER_FACTS and any(map(_is_held, modules))
    }
    assert not again


def _is_held(module: str) -> bool:
    return any(module.startswith(f"{folder}/") for folder in HOLDERS)
