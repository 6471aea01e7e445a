"""Fixtures: the tools, which the first run downloads with Maven to .cache/ of the checkout."""

from __future__ import annotations

import pytest

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_process import archive_classes


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    with skipped_without_jars():
        archive_classes()
