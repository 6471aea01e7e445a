"""Fixtures: a broker, and a page that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kafkapy import Broker, Page
from tests.page.browsing import Browser
from tests.refused_connections import refused_connections_closed


@pytest.fixture(scope="session", autouse=True)
def _refused_connections_are_closed() -> Iterator[None]:
    with refused_connections_closed():
        yield


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for the tests of a module; they use topics and groups of their own."""
    with Broker() as started:
        yield started


@pytest.fixture(scope="module")
def page(broker: Broker) -> Iterator[Page]:
    """One page for the tests of a module."""
    with Page(broker.bootstrap_servers) as started:
        yield started


@pytest.fixture
def browser(page: Page) -> Browser:
    """Asks the page."""
    return Browser(page.url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"[^\w-]+", "-", request.node.name)[:200]
