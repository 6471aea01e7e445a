"""Which of the batches that were read a member may want."""

from __future__ import annotations

from kafkapy.share.fetch import wanted_places
from kafkapy.storage.log.batches import BatchPlace


def places(*spans: tuple[int, int]) -> list[BatchPlace]:
    return [BatchPlace(0, 100, first, last, 0, 0, 0) for first, last in spans]


def wanted(*spans: tuple[int, int], next_offset: int, most: int) -> list[int]:
    return [place.base_offset for place in wanted_places(places(*spans), next_offset, most)]


def test_no_more_headers_are_read_than_the_member_wants_records() -> None:
    assert wanted((0, 9), (10, 19), (20, 29), next_offset=0, most=15) == [0, 10]


def test_what_is_in_flight_does_not_count() -> None:
    assert wanted((0, 9), (10, 19), (20, 29), (30, 39), next_offset=20, most=10) == [0, 10, 20]


def test_a_large_gap_of_compaction_hides_nothing() -> None:
    assert wanted((10_000, 10_009), (10_010, 10_019), next_offset=0, most=10) == [10_000]
