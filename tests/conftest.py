"""The fixtures of all tests: certificates, and what a test left open is closed after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.certificates import Certificates, make_certificates
from tests.storage.log_harness import AT_THE_END


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """What an authority has signed for the broker and its clients."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def _files_are_closed() -> Iterator[None]:
    """Close files that the test left open: a long run would reach the limit of open files."""
    before = len(AT_THE_END)
    yield
    for close in AT_THE_END[before:]:
        close()
    del AT_THE_END[before:]
