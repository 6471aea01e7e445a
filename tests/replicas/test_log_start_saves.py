"""Log start offsets are on disk before the requests that moved them are answered."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.log_start_saves import LogStartSaves
from kafkapy.storage.disk.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, read_offsets
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import TOPIC_ID, Fault, Logs, fill


def filled(logs: Logs, index: int) -> PartitionLog:
    """A log of ten records."""
    log = logs.manager.create(TopicPartition("events", index), TOPIC_ID, logs.config, new=True)
    log.config = logs.config
    fill(log, 10)
    log.flush()
    return log


def on_disk(logs: Logs) -> dict[TopicPartition, int]:
    return read_offsets(logs.files, str(logs.root / "data" / LOG_START_OFFSETS))


class Threads:
    """Runs what blocks when the test says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, call: Callable[[], None]) -> None:
        self.calls += 1
        await self.open.wait()
        call()


async def test_requests_that_ask_during_a_write_share_the_next(tmp_path: Path) -> None:
    logs, threads = Logs(tmp_path), Threads()
    saves = LogStartSaves(logs.manager, threads)
    several = [filled(logs, index) for index in range(20)]
    threads.open.clear()
    asking = []
    for log in several:
        log.advance_log_start_offset(4)
        asking.append(asyncio.ensure_future(saves.save([log])))
        await asyncio.sleep(0)
    threads.open.set()
    await asyncio.gather(*asking)
    assert threads.calls == 2
    assert on_disk(logs) == {log.topic_partition: 4 for log in several}
    assert all(saves.is_saved(log) for log in several)
    await saves.save(several)
    assert threads.calls == 2, "nothing was left to be saved"


async def test_an_offset_that_finds_no_room_is_not_saved_and_saved_when_asked_again(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    saves = LogStartSaves(logs.manager, Threads())
    log = filled(logs, 0)
    log.advance_log_start_offset(4)
    logs.files.faults = [Fault("write", errno.ENOSPC, LOG_START_OFFSETS)]
    await saves.save([log])
    assert not saves.is_saved(log)
    assert logs.manager.offline_dirs == []
    logs.files.faults = []
    await saves.save([log])
    assert saves.is_saved(log)
    assert on_disk(logs) == {log.topic_partition: 4}


async def test_an_offset_stays_written_when_its_segments_are_deleted(tmp_path: Path) -> None:
    """A power cut may bring back files whose removal was not synced."""
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=300))
    saves = LogStartSaves(logs.manager, Threads())
    log = filled(logs, 0)
    log.advance_log_start_offset(list(log.segments)[2].base_offset)
    await saves.save([log])
    log.delete_old_segments(START_MS)
    assert log.segments.first.base_offset == log.log_start_offset
    logs.manager.checkpoint_log_start_offsets()()
    assert on_disk(logs) == {log.topic_partition: log.log_start_offset}


async def test_an_offset_holds_when_a_crash_takes_the_records_up_to_it(tmp_path: Path) -> None:
    """No offset is assigned twice: the log continues at its saved start offset."""
    logs = Logs(tmp_path, durability="os")
    fill(logs.log, 10)
    logs.log.advance_high_watermark(10)
    logs.log.advance_log_start_offset(10)
    await LogStartSaves(logs.manager, Threads()).save([logs.log])
    segment = logs.log.segments.active.path
    logs.crash()
    os.truncate(segment, 0)
    logs.restart(clean=False)
    assert (logs.log.log_start_offset, logs.log.log_end_offset) == (10, 10)


async def test_an_offset_is_not_saved_before_a_high_watermark_that_reaches_it(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    saves = LogStartSaves(logs.manager, Threads())
    log = filled(logs, 0)
    log.advance_log_start_offset(4)
    logs.files.faults = [Fault("write", errno.ENOSPC, HIGH_WATERMARKS)]
    await saves.save([log])
    assert not saves.is_saved(log)
    assert on_disk(logs) == {}
    logs.files.faults = []
    await saves.save([log])
    assert saves.is_saved(log)
