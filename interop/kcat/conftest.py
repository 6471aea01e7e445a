"""The kcat of the package manager; as root on Debian, the first run installs it."""

from __future__ import annotations

import pytest

from interop.support import debian


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    if problem := debian.installed("kcat", "kcat"):
        pytest.skip(problem)
