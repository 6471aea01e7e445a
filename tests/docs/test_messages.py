"""The messages that the page on troubleshooting quotes are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[2]
# The first column of a row may have several spans of code.
_FIRST_COLUMN = re.compile(r"^\| (`.+?`) \|", re.MULTILINE)
_PLACEHOLDER = re.compile(r"%[-.\d]*[dfgrs]")


def _quotes() -> list[str]:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    return [quote for column in _FIRST_COLUMN.findall(page) for quote in re.findall("`([^`]+)`", column)]


def _text(node: ast.expr) -> str:
    """The text of a literal, with … for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _PLACEHOLDER.sub("…", node.value)
    return "…"


@pytest.fixture(scope="module")
def literals() -> str:
    """Every text in the code, one a line."""
    folders = ("kafkapy", "protocol", "storage")
    paths = {path.resolve() for folder in folders for path in (ROOT / folder).rglob("*.py")}
    return "\n".join(
        _text(node)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr | ast.Constant)
    )


@pytest.mark.parametrize("quote", _quotes())
def test_a_quoted_message_is_one_of_the_code(quote: str, literals: str) -> None:
    assert quote in ErrorCode.__members__ or quote in literals
