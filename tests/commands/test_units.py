"""Durations, sizes and times as people write them."""

from __future__ import annotations

import time

import pytest

from kafkapy.commands import units
from kafkapy.errors import UserError


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("retention.ms", "1d", "86400000"),
        ("retention.ms", "1d12h", "129600000"),
        ("retention.ms", "1.5s", "1500"),
        ("retention.ms", "604800000", "604800000"),
        ("retention.ms", "-1", "-1"),
        ("log.retention.hours", "2d", "48"),
        ("segment.bytes", "64MiB", "67108864"),
        ("segment.bytes", "1MB", "1000000"),
        ("segment.bytes", "1g", "1073741824"),
        ("producer_byte_rate", "10MiB", "10485760"),
        ("cleanup.policy", "compact", "compact"),
        ("follower.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"),
        ("min.cleanable.dirty.ratio", "0.5", "0.5"),
    ],
)
def test_a_setting_is_read_with_its_unit(name: str, value: str, expected: str) -> None:
    assert units.setting_value(name, value) == expected


@pytest.mark.parametrize(
    ("name", "value"), [("retention.ms", "1 day"), ("retention.ms", "1y"), ("segment.bytes", "1d")]
)
def test_an_unknown_unit_is_refused(name: str, value: str) -> None:
    with pytest.raises(UserError, match=f"^{name}={value}: expected a "):
        units.setting_value(name, value)


@pytest.mark.parametrize(("name", "value"), [("retention.ms", "0.5ms"), ("log.retention.hours", "90m")])
def test_nothing_is_rounded(name: str, value: str) -> None:
    with pytest.raises(UserError, match="whole number"):
        units.setting_value(name, value)


def test_a_time_is_a_date_milliseconds_or_so_long_ago() -> None:
    assert units.instant("2026-11-29T08:00:00+00:00", "--since") == 1795939200000
    assert units.instant("1795939200000", "--since") == 1795939200000
    before = round(time.time() * 1000) - 7_200_000
    assert before <= units.instant("2h", "--since") <= before + 60_000
    with pytest.raises(UserError, match=r"^--since yesterday: expected a time such as"):
        units.instant("yesterday", "--since")


def test_times_durations_and_sizes_are_shown_for_people() -> None:
    assert units.time_text(1795939200123) == "2026-11-29T08:00:00.123Z"
    assert units.time_text(-1) is None
    assert [units.duration_text(each) for each in (0, 65, 90_061)] == ["0s", "1m 5s", "1d 1h"]
    assert [units.size_text(each) for each in (5, 2048, 3 << 40)] == ["5 B", "2.0 KiB", "3.0 TiB"]
