"""The sample from which quantiles are estimated."""

from __future__ import annotations

import random

from kafkapy.loop.latency_sample import SIZE, WINDOW_SECONDS, LatencySample


def put(sample: LatencySample[int], durations: range, now: float) -> int:
    """Give durations to a sample, and return how many were taken, not passed over."""
    taken = 0
    for each in durations:
        if sample.skip:
            sample.skip -= 1
        else:
            sample.take(each, now)
            taken += 1
    return taken


def test_a_few_durations_are_all_kept() -> None:
    sample: LatencySample[int] = LatencySample(0.0)
    put(sample, range(100), 1.0)
    assert sample.durations(2.0) == list(range(100))


def test_each_of_many_durations_has_the_same_chance_and_most_are_passed_over() -> None:
    sample: LatencySample[int] = LatencySample(0.0, random.Random(7))
    count = 200_000
    taken = put(sample, range(count), 1.0)
    kept = sample.durations(2.0)
    assert len(kept) == SIZE
    assert taken < 10 * SIZE
    # A tenth of the sample is from each tenth of the durations; 3 standard deviations are 29.
    for tenth in range(10):
        part = [each for each in kept if tenth * count // 10 <= each < (tenth + 1) * count // 10]
        assert abs(len(part) - SIZE / 10) < 40


def test_a_window_is_shown_until_the_next_one_is_over() -> None:
    sample: LatencySample[int] = LatencySample(0.0)
    put(sample, range(5), 1.0)
    put(sample, range(5, 8), WINDOW_SECONDS + 1)
    assert sample.durations(WINDOW_SECONDS + 2) == list(range(8))
    assert sample.durations(2 * WINDOW_SECONDS + 2) == [5, 6, 7]
    assert sample.durations(3 * WINDOW_SECONDS + 2) == []


def test_what_was_passed_over_does_not_outlast_its_window() -> None:
    sample: LatencySample[int] = LatencySample(0.0, random.Random(7))
    put(sample, range(1_000_000), 1.0)
    assert sample.durations(WINDOW_SECONDS + 1)
    put(sample, range(3), WINDOW_SECONDS + 2)
    assert sample.durations(2 * WINDOW_SECONDS + 3) == [0, 1, 2]
