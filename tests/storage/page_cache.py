"""A page cache of a test's own.

It says which bytes of files are in memory, and how others get there.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkapy.storage.disk import files
from kafkapy.storage.disk.files import File, FileSlice

Has = Callable[[File, int, int], bool]
"""Whether a number of bytes from a position on are in memory."""
Load = Callable[[FileSlice, int, int], None]
"""Loads a number of bytes of a slice from an offset on."""


def replace_page_cache(monkeypatch: pytest.MonkeyPatch, has: Has, load: Load | None = None) -> None:
    """Have these functions asked, and not the kernel."""
    monkeypatch.setattr(files, "is_cached", has)
    if load is not None:
        monkeypatch.setattr(FileSlice, "load", lambda *arguments: load(*arguments))
