"""Full garbage collections do not go through what the broker keeps, again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kafkapy.loop import collector
from kafkapy.loop.collector import Collector, importing


@pytest.fixture
def _collector() -> Iterator[None]:
    watched = Collector()
    watched.start()
    yield
    watched.stop()


@pytest.mark.usefixtures("_collector")
@pytest.mark.parametrize("is_long", [True, False])
def test_what_makes_a_full_collection_long_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    monkeypatch.setattr(collector, "LONG_SECONDS", 0 if is_long else 1_000)
    kept: list[list[int]] = [[] for _ in range(10)]
    gc.collect()
    assert any(each is kept for each in gc.get_objects()) is not is_long


def test_what_is_imported_is_set_aside() -> None:
    with importing():
        kept: list[list[int]] = [[] for _ in range(10)]
        collected = gc.isenabled()
    assert not collected
    assert gc.isenabled()
    assert not any(each is kept for each in gc.get_objects())
