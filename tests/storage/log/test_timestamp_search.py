"""A search by time runs in another thread, and changes nothing of the log."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.timestamp_search import LogChangedError, TimestampSearch
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import Logs, append, batch, fill

SEGMENTS_OF_5 = LogConfig(segment_bytes=1000, index_interval_bytes=200)
NEWEST = None


def run(search: TimestampSearch) -> None:
    """Run a search in another thread."""
    with ThreadPoolExecutor(1) as executor:
        executor.submit(search.run).result()


def offset_at(log: PartitionLog, timestamp: int | None) -> int | None:
    search = log.search(timestamp)
    run(search)
    found = search.result()
    return None if found is None else found.offset


def count_opens(logs: Logs) -> list[str]:
    """The files that are opened from now on."""
    logs.files.opened.clear()
    return logs.files.opened


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_on_the_loop_reads_no_file_however_many_segments_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 200)
    log = logs.restart(clean=clean)
    log.close_files()
    opened = count_opens(logs)
    search = log.search(START_MS + 150)
    assert opened == []
    run(search)
    assert opened
    del opened[:]
    found = search.result()
    assert found is not None
    assert found.offset == 150
    assert opened == []


def test_what_a_search_learned_of_closed_segments_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 200)
    log = logs.restart()
    assert offset_at(log, START_MS + 150) == 150
    opened = count_opens(logs)
    assert offset_at(log, START_MS + 151) == 151
    assert {Path(path).stem for path in opened} <= {f"{150:020d}", f"{log.segments.active.base_offset:020d}"}
    del opened[:]
    assert offset_at(log, START_MS + 150) == 150
    assert opened == [], "the answer is remembered"


def test_what_is_appended_meanwhile_is_not_seen(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=SEGMENTS_OF_5).log
    fill(log, 7)
    searches = [log.search(START_MS + 6), log.search(START_MS + 100), log.search(NEWEST)]
    for index in range(50):
        append(log, batch(b"x" * 100, timestamp=START_MS + 50 + index * 10))
    for search in searches:
        run(search)
    assert [found and found.offset for found in (search.result() for search in searches)] == [6, None, 6]


def expire(log: PartitionLog) -> None:
    log.advance_log_start_offset(11)
    log.delete_old_segments(START_MS)


def delete(log: PartitionLog) -> None:
    log.log_directory.files.rename(log.path, log.path + ".gone")
    log.moved_to(log.path + ".gone")


CHANGES: dict[str, Callable[[PartitionLog], object]] = {
    "truncated": lambda log: log.truncate_to(12),
    "emptied": lambda log: log.truncate_fully_and_start_at(40),
    "expired": expire,
    "deleted": delete,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("timestamp", [START_MS + 2, NEWEST])
@pytest.mark.parametrize("first", [True, False])
def test_a_log_that_changes_meanwhile_is_searched_again(
    tmp_path: Path, change: str, timestamp: int | None, first: bool
) -> None:
    logs = Logs(tmp_path, config=replace(SEGMENTS_OF_5, file_delete_delay_ms=0))
    fill(logs.log, 20)
    log = logs.restart()
    log.advance_high_watermark(log.log_end_offset)
    search = log.search(timestamp)
    if not first:
        run(search)
    CHANGES[change](log)
    run(search)
    with pytest.raises(LogChangedError):
        search.result()
    assert logs.manager.offline_dirs == []
    offset_at(log, timestamp)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [None, b"", b"garbage", bytes(24), b"\x00\x00\x00\x01" * 24])
def test_an_index_that_is_missing_or_wrong_is_done_without(
    tmp_path: Path, suffix: str, content: bytes | None
) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 20)
    log = logs.restart()
    for base_offset in (0, 5, 10):
        path = logs.path / f"{base_offset:020d}{suffix}"
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
    before = {path.name: path.read_bytes() for path in logs.path.iterdir()}
    assert [offset_at(log, START_MS + index) for index in range(21)] == [*range(20), None]
    assert offset_at(log, NEWEST) == 19
    assert {path.name: path.read_bytes() for path in logs.path.iterdir()} == before


def test_a_batch_that_decompresses_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = logs.log
    append(log, batch(b"a", bytes(100_000), b"c", compression=Compression.GZIP))
    for timestamp, limit, expected in (
        (NEWEST, 200_000, 2),
        (START_MS, 200_000, 0),
        (START_MS + 2, 200_000, 2),
    ):
        search = log.search(timestamp, limit)
        run(search)
        found = search.result()
        assert found is not None
        assert found.offset == expected
    for timestamp in (NEWEST, START_MS + 1):
        log.reader.forget()
        search = log.search(timestamp, 50_000)
        run(search)
        with pytest.raises(KafkaError) as caught:
            search.result()
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert logs.manager.offline_dirs == []
