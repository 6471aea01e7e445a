"""Sets of the places of dead letters."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kafkapy.pipeline.dead_letters.source import Partition, Source, SourceSet

SOURCES = st.builds(
    Source, st.just("orders"), st.integers(0, 1), st.integers(0, 30), st.sampled_from([None, "a"])
)


@given(st.lists(SOURCES))
def test_it_has_what_was_added_in_ranges_that_do_not_touch(added: list[Source]) -> None:
    found = SourceSet()
    for source in added:
        found.add(source)
    assert len(found) == len(set(added))
    for partition in (0, 1):
        for topic_id in (None, "a"):
            for offset in range(32):
                source = Source("orders", partition, offset, topic_id)
                assert (source in found) == (source in set(added))
    for _, listed in found.ranges():
        ranges = list(listed)
        assert all(first <= last for first, last in ranges)
        assert all(last + 1 < after for (_, last), (after, _) in itertools.pairwise(ranges))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9))))
def test_a_range_is_all_its_offsets(added: list[tuple[int, int]]) -> None:
    found, place = SourceSet(), Partition("orders", 0, None)
    for first, more in added:
        found.add_range(place, first, first + more)
    offsets = {offset for first, more in added for offset in range(first, first + more + 1)}
    assert len(found) == len(offsets)
    listed = [one for _, ranges in found.ranges() for first, last in ranges for one in range(first, last + 1)]
    assert listed == sorted(offsets)
