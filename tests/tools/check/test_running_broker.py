"""A check beside a broker that works has no false alarm.

The broker writes, rolls, flushes, truncates and deletes.
"""

from __future__ import annotations

import threading
from pathlib import Path

from kafkapy.tools.check.finding import Severity
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import Logs
from tests.tools.check.directories import CONFIG, checked, fill

ROUNDS = 100


def test_a_log_that_is_being_written(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG, durability="os")
    fill(logs, 4)
    done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        epoch = 1
        try:
            while not done.is_set():
                fill(logs, 30, first_epoch=epoch)
                epoch += 3
                log = logs.log
                log.flush()
                logs.save_recovery_points()
                logs.manager.checkpoint_high_watermarks()()
                log.advance_log_start_offset(log.log_end_offset - 100)
                logs.manager.checkpoint_log_start_offsets()()
                log.delete_old_segments(START_MS)
                logs.manager.delete_expired_files(START_MS + 10**9)
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(ROUNDS):
            found, summary = checked(logs.path.parent, deep=False)
            assert [each.text() for each in found if each.severity is not Severity.HARMLESS] == []
            assert not summary.unreadable
            assert summary.live
    finally:
        done.set()
        writer.join()
    assert not failures, failures
    end = logs.log.log_end_offset
    logs.stop()
    found, summary = checked(logs.path.parent)
    assert [each.text() for each in found] == []
    assert end > 40
