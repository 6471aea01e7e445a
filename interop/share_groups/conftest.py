"""Fixtures: the jars, and groups that begin at the first record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interop.java_tools.tools import tool
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_process import archive_classes

MakeGroup = Callable[..., str]


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    with skipped_without_jars():
        archive_classes()


def begin_at_the_first_record(bootstrap_servers: str, group: str, **settings: str) -> None:
    """Set share.auto.offset.reset=earliest, and other settings of a group."""
    given = {"share.auto.offset.reset": "earliest", **settings}
    config = ",".join(f"{name}={value}" for name, value in given.items())
    entity = ["--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", config]
    tool("configs", bootstrap_servers, *entity)


@pytest.fixture
def make_group(bootstrap_servers: str, name: str) -> MakeGroup:
    """`make_group(**settings)` sets up a group, and returns its name."""

    def make(**settings: str) -> str:
        begin_at_the_first_record(bootstrap_servers, name, **settings)
        return name

    return make
