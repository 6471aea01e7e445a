"""One build of the compiled parts serves CPython 3.11 and later."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kafkapy import protocol, storage

_WITH_LENGTH: Final = re.compile(r'"[^"\n]*[syzu]#[^"\n]*"')
"""Formats of Py_BuildValue and PyArg_ParseTuple that have a length."""


def test_no_format_has_a_length() -> None:
    """Python before 3.13 refuses those that a later one has compiled."""
    folders = [Path(path) for room in (protocol, storage) for path in room.__path__]
    sources = [path for folder in folders for path in folder.rglob("*.[ch]")]
    found = {path.name: _WITH_LENGTH.findall(path.read_text()) for path in sources}
    assert len(found) > 3
    assert not {name: formats for name, formats in found.items() if formats}
