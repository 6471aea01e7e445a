"""Full garbage collections do not go through what the broker keeps, again and again."""

from __future__ import annotations

import gc

import pytest

from kafkapy.loop.collector import Collector, importing


@pytest.mark.parametrize("is_long", [True, False])
def test_what_makes_a_full_collection_long_is_set_aside(is_long: bool) -> None:
    watched = Collector(0 if is_long else 1_000)
    watched.start()
    kept: list[list[int]] = [[] for _ in range(10)]
    gc.collect()
    is_frozen = not any(each is kept for each in gc.get_objects())
    watched.stop()
    assert is_frozen is is_long


def test_what_is_imported_is_set_aside() -> None:
    with importing():
        kept: list[list[int]] = [[] for _ in range(10)]
        collected = gc.isenabled()
    assert not collected
    assert gc.isenabled()
    assert not any(each is kept for each in gc.get_objects())
