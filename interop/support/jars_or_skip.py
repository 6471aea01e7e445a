"""Tests that need jars are skipped on a machine that cannot get them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from interop.support.maven import JarsUnavailableError


@contextmanager
def skipped_without_jars() -> Iterator[None]:
    """Skip the test, and say why, if the block cannot get its jars."""
    try:
        yield
    except JarsUnavailableError as problem:
        pytest.skip(str(problem))
