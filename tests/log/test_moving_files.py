"""Reading while a broker appends, deletes and compacts.

Files grow, go, or get other names.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kafkapy.log.range_reader import read_range
from kafkapy.protocol.records import BatchHeader, build_batch, decode_records, iter_headers
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.offline.batch_chunks import CHUNK
from kafkapy.storage.offline.offline_error import LogSourceError
from tests.log.reading import FILES, contents, offsets, plan, read, rows
from tests.storage.cleaning.test_model import Life
from tests.storage.log_harness import Logs, append, batch, fill

SEVERAL_SEGMENTS = LogConfig(segment_bytes=1000, index_interval_bytes=100)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """Records 0 to 39 in several segments."""
    logs = Logs(tmp_path, config=SEVERAL_SEGMENTS)
    fill(logs.log, 40)
    return logs


def stems(logs: Logs) -> list[Path]:
    """The `.log` files in order."""
    return sorted(logs.path.glob("*.log"))


def test_what_is_appended_after_the_plan_is_not_read(logs: Logs) -> None:
    ranges = plan(logs)
    fill(logs.log, 20)
    assert [row[0] for row in rows(read(ranges))] == list(range(40))
    assert offsets(logs) == list(range(60))


def test_appends_between_two_chunks_do_not_show(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10, size=900_000)
    found, chunks = [], 0
    for each in read(plan(logs)):
        found += each.column("offset").to_pylist()
        fill(logs.log, 1)
        chunks += 1
    assert chunks > 2
    assert found == list(range(10))


def test_a_batch_larger_than_a_chunk_is_read(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(max_message_bytes=2 * CHUNK))
    append(logs.log, batch(b"x" * (CHUNK + 5_000), b"y"))
    append(logs.log, batch(b"z"))
    logs.log.advance_high_watermark(3)
    assert offsets(logs) == [0, 1, 2]


# --- retention ----------------------------------------------------------------------------------------------


def test_segments_that_are_about_to_be_deleted_are_still_read_by_an_older_plan(logs: Logs) -> None:
    ranges = plan(logs)
    for path in stems(logs)[:2]:
        path.rename(f"{path}.deleted")
    assert [row[0] for row in rows(read(ranges))] == list(range(40))
    kept = int(stems(logs)[0].stem)
    assert offsets(logs) == list(range(kept, 40)), "a new plan knows nothing of them"


def test_segments_that_are_gone_are_an_error_unless_that_is_allowed(logs: Logs) -> None:
    ranges = plan(logs)
    for path in stems(logs)[:2]:
        path.unlink()
    kept = int(stems(logs)[0].stem)
    with pytest.raises(LogSourceError, match=f"Offsets 0 to {kept - 1} of events-0 are deleted"):
        rows(read(ranges))
    assert [row[0] for row in rows(read(ranges, fail_on_data_loss=False))] == list(range(kept, 40))


def test_a_segment_that_goes_while_it_is_read_is_read_to_its_end(logs: Logs) -> None:
    [wanted] = plan(logs)
    reader = read_range(FILES, wanted, headers=True, fail_on_data_loss=False)
    first = rows([next(reader)])
    for path in stems(logs)[:3]:
        path.unlink()
    kept = int(stems(logs)[0].stem)
    found = [row[0] for row in first + rows(reader)]
    assert found == [*range(len(first)), *range(kept, 40)]


def test_a_partition_that_is_deleted_is_an_error(logs: Logs) -> None:
    ranges = plan(logs)
    shutil.move(logs.path, logs.path.with_name("events-0.00000000000000000000000000000000-delete"))
    with pytest.raises(LogSourceError, match="events-0 cannot be read: No such file or directory"):
        rows(read(ranges))
    with pytest.raises(LogSourceError, match=r"There is no topic events in .*, nor any other"):
        plan(logs)


def test_a_log_that_was_cut_at_its_end_is_an_error_for_an_older_plan(logs: Logs) -> None:
    ranges = plan(logs)
    logs.log.truncate_to(30)
    with pytest.raises(LogSourceError, match="Offsets 30 to 39 of events-0 are gone"):
        rows(read(ranges))
    assert [row[0] for row in rows(read(ranges, fail_on_data_loss=False))] == list(range(30))


# --- compaction ---------------------------------------------------------------------------------------------


def compacted(logs: Logs, segments: int) -> tuple[bytes, list[int]]:
    """The even records of the first segments as one segment, as compaction writes it."""
    content = bytearray()
    kept = []
    for path in stems(logs)[:segments]:
        data = path.read_bytes()
        for position, header in iter_headers(data):
            for record in decode_records(data, position, header):
                if record.offset % 2 == 0:
                    content += build_batch([record], base_offset=record.offset)
                    kept.append(record.offset)
    return bytes(content), kept


def swap_begins(logs: Logs, suffix: str) -> list[int]:
    """Compaction of the first three segments, up to the files with `suffix`; what is left then."""
    content, kept = compacted(logs, 3)
    (logs.path / f"{0:020d}.log{suffix}").write_bytes(content)
    return kept


def test_what_compaction_has_not_finished_writing_is_not_read(logs: Logs) -> None:
    swap_begins(logs, ".cleaned")
    assert offsets(logs) == list(range(40))


def test_a_swap_replaces_the_segments_that_it_covers_wherever_it_stopped(logs: Logs) -> None:
    ranges = plan(logs)
    old = stems(logs)[:3]
    end = int(stems(logs)[3].stem)
    expected = [*swap_begins(logs, ".swap"), *range(end, 40)]
    assert offsets(logs) == expected
    for path in old:
        path.rename(f"{path}.deleted")
        assert offsets(logs) == expected
    assert [row[0] for row in rows(read(ranges))] == expected
    (logs.path / f"{0:020d}.log.swap").rename(logs.path / f"{0:020d}.log")
    for path in logs.path.glob("*.deleted"):
        path.unlink()
    assert offsets(logs) == expected
    assert [row[0] for row in rows(read(ranges))] == expected


def test_a_swap_is_not_complete_while_there_is_something_to_rename(logs: Logs) -> None:
    content, _ = compacted(logs, 3)
    (logs.path / f"{0:020d}.log.cleaned").write_bytes(content)
    last = stems(logs)[2]
    (logs.path / f"{last.name}.swap").write_bytes(b"")
    assert offsets(logs) == list(range(40))


def test_segments_that_compaction_joins_under_the_reader_are_found_in_the_new_one(logs: Logs) -> None:
    [wanted] = plan(logs)
    reader = read_range(FILES, wanted, headers=True)
    first = rows([next(reader)])
    old = stems(logs)[:3]
    end = int(stems(logs)[3].stem)
    content, kept = compacted(logs, 3)
    for path in old:
        path.unlink()
    old[0].write_bytes(content)
    expected = [*range(len(first)), *(offset for offset in kept if offset >= len(first)), *range(end, 40)]
    assert [row[0] for row in first + rows(reader)] == expected


def test_what_the_cleaner_leaves_is_read_empty_batches_and_delete_horizons_included(tmp_path: Path) -> None:
    life = Life(tmp_path, random.Random(11))
    for _ in range(60):
        life.append()
        life.transact()
    life.end_all()
    life.compact_all()
    headers = [header for segment in life.log.segments for _, header in segment_headers(segment.path)]
    assert any(header.record_count == 0 for header in headers)
    expected = [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in life.visible()
    ]
    assert contents(life.logs) == expected


def segment_headers(path: str) -> list[tuple[int, BatchHeader]]:
    return list(iter_headers(Path(path).read_bytes()))
