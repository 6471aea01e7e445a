"""A log start offset above the log's end.

One digit has rotted, or a crash took records.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.storage.disk.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, write_offsets
from tests.storage.log_harness import TP, Logs, fill, offsets


def ended(tmp_path: Path, *, clean: bool) -> Logs:
    """A log of 20 records that begins at offset 4."""
    logs = Logs(tmp_path)
    fill(logs.log, 20)
    logs.log.flush()
    logs.log.advance_high_watermark(20)
    logs.log.advance_log_start_offset(4)
    for write in (
        logs.manager.checkpoint_recovery_points(),
        logs.manager.checkpoint_log_start_offsets(),
        logs.manager.checkpoint_high_watermarks(),
    ):
        write()
    logs.stop() if clean else logs.crash()
    return logs


def say(logs: Logs, name: str, offset: int) -> None:
    write_offsets(logs.files, f"{logs.path.parent}/{name}", {TP: offset})


@pytest.mark.parametrize("clean", [True, False])
def test_no_record_goes_for_a_log_start_offset_that_cannot_be_right(tmp_path: Path, clean: bool) -> None:
    logs = ended(tmp_path, clean=clean)
    say(logs, LOG_START_OFFSETS, 90)
    logs.manager = logs.new_manager()
    assert offsets(logs.log) == list(range(20))


def test_a_log_that_lost_its_end_begins_where_it_began(tmp_path: Path) -> None:
    logs = ended(tmp_path, clean=False)
    say(logs, LOG_START_OFFSETS, 90)
    say(logs, HIGH_WATERMARKS, 95)
    logs.manager = logs.new_manager()
    assert (logs.log.log_start_offset, logs.log.log_end_offset) == (90, 90)
