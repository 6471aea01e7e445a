"""The fixture of all tests: what a test left open is closed after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.log_harness import AT_THE_END


@pytest.fixture(autouse=True)
def _files_are_closed() -> Iterator[None]:
    """Close files that the test left open: a long run would reach the limit of open files."""
    before = len(AT_THE_END)
    yield
    for close in AT_THE_END[before:]:
        close()
    del AT_THE_END[before:]
