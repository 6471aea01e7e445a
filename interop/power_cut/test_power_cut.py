"""A power cut costs kafkapy nothing that it acknowledged, and it always starts again.

Apache Kafka runs beside it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.power_cut.runs import (
    KafkaOnDisk,
    KafkapyOnDisk,
    cut_after_acknowledgement,
    cut_at_first_start,
)
from interop.support.jars_or_skip import skipped_without_jars
from tests.crash.loop_disk import why_not

COUNT = 2000


@pytest.fixture(autouse=True)
def disks() -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)


def test_kafkapy_keeps_what_it_acknowledged_and_starts_again(tmp_path: Path) -> None:
    after = cut_after_acknowledgement(KafkapyOnDisk, tmp_path / "acknowledged", COUNT)
    assert (after.acknowledged, after.lost, after.starts_again) == (COUNT, 0, True)
    assert cut_at_first_start(KafkapyOnDisk, tmp_path / "first").starts_again


@pytest.mark.jvm
def test_apache_kafka_loses_what_it_acknowledged_with_the_settings_it_ships_with(tmp_path: Path) -> None:
    with skipped_without_jars():
        after = cut_after_acknowledgement(KafkaOnDisk, tmp_path / "acknowledged", COUNT)
    assert after.acknowledged == COUNT
    assert after.lost > 0
