"""The files of docs/results: JSON that is read line by line, by people and in differences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).resolve().parents[1] / "docs" / "results"

_LINE: Final = 300
"""Characters; what fits is not broken up."""


def write_results(path: Path, results: Mapping[str, object]) -> None:
    """Write them, with their folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_broken_up(dict(results), "") + "\n")


def _broken_up(value: object, indent: str) -> str:
    """As JSON, with a line for each part of what is too long; lists of numbers stay whole."""
    line = json.dumps(value, ensure_ascii=False)
    inner = indent + " "
    match value:
        case dict() if not indent or len(line) > _LINE:
            parts = [f"{json.dumps(name)}: {_broken_up(part, inner)}" for name, part in value.items()]
            opening, closing = "{}"
        case list() if len(line) > _LINE and any(isinstance(part, dict | list | str) for part in value):
            parts = [_broken_up(part, inner) for part in value]
            opening, closing = "[]"
        case _:
            return line
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closing}"
