"""Where a log ends for a reader.

It ends at what is committed, after the last complete batch; damage is not its end.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.records import HEADER_SIZE, Record, build_batch, iter_headers
from kafkapy.storage.disk.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, write_offsets
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from tests.log.reading import offsets, plan, read, rows
from tests.loop.turned_clock import START_MS
from tests.protocol.record_strategies import fix_crc
from tests.storage.descriptors import open_below
from tests.storage.log_harness import TP, Logs, append, batch, fill

SEVERAL_SEGMENTS = LogConfig(segment_bytes=1000, index_interval_bytes=100)


def checkpoint(logs: Logs, name: str, offset: int) -> None:
    write_offsets(FileSystem(), str(logs.root / "data" / name), {TP: offset})


def segment_file(logs: Logs, base_offset: int = 0) -> Path:
    return logs.path / f"{base_offset:020d}.log"


# --- checkpoints --------------------------------------------------------------------------------------------


def test_a_high_watermark_is_the_end_where_other_replicas_have_a_say(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    assert offsets(logs) == list(range(10)), "no checkpoint: the end of the log"
    checkpoint(logs, HIGH_WATERMARKS, 7)
    assert offsets(logs) == list(range(7))
    logs.stop()
    assert offsets(logs) == list(range(10)), "a stop in order writes it anew"


def test_a_broker_that_is_alone_is_read_to_the_end_of_its_log(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    checkpoint(logs, HIGH_WATERMARKS, 7)
    (logs.root / "data" / METADATA_FILE).touch()
    assert offsets(logs) == list(range(10))


def test_a_high_watermark_above_the_log_is_bounded_by_it(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    checkpoint(logs, HIGH_WATERMARKS, 700)
    assert offsets(logs) == list(range(10)), "the topic was made anew since"


def test_deleted_records_are_not_read(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEVERAL_SEGMENTS)
    fill(logs.log, 40)
    checkpoint(logs, LOG_START_OFFSETS, 13)
    assert offsets(logs) == list(range(13, 40))
    with pytest.raises(LogSourceError, match="Offsets 5 to 12 of events-0 are deleted: its log starts at 13"):
        offsets(logs, startingOffsets=json.dumps({"events": {"0": 5}}))
    start = {"startingOffsets": json.dumps({"events": {"0": 5}}), "failOnDataLoss": "false"}
    assert offsets(logs, **start) == list(range(13, 40))


def test_a_checkpoint_that_cannot_be_understood_is_done_without(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    (logs.root / "data" / HIGH_WATERMARKS).write_bytes(b"\x00\xff")
    assert offsets(logs) == list(range(10))


def test_a_log_that_lost_its_end_since_a_stop_in_order_is_damaged(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    logs.stop()
    path = segment_file(logs)
    places = [position for position, _ in iter_headers(path.read_bytes())]
    path.write_bytes(path.read_bytes()[: places[8]])
    with pytest.raises(LogSourceError, match="ends at offset 8, but everything up to offset 9 was on disk"):
        offsets(logs)


# --- torn tails ---------------------------------------------------------------------------------------------


def test_a_batch_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    append(logs.log, batch(b"a", b"b"))
    append(logs.log, batch(b"c"))
    path = segment_file(logs)
    whole = path.read_bytes()
    last = [position for position, _ in iter_headers(whole)][-1]
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert offsets(logs) == [0, 1]
    path.write_bytes(whole)
    assert offsets(logs) == [0, 1, 2]


def test_a_batch_that_is_written_meanwhile_is_read_below_a_stale_checkpoint(
    tmp_path: Path,
) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 3)
    checkpoint(logs, HIGH_WATERMARKS, 700)  # of a topic that had this name before
    path = segment_file(logs)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(LogSourceError, match="is damaged at byte"):
        offsets(logs)

    class WrittenMeanwhile(ReadOnlyFiles):
        def size_of(self, file: File) -> int:
            size = super().size_of(file)
            path.write_bytes(whole)
            return size

    assert [row[0] for row in rows(read(plan(logs, WrittenMeanwhile())))] == [0, 1, 2]


def test_space_that_was_allocated_and_not_written_is_no_batch(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    path = segment_file(logs)
    path.write_bytes(path.read_bytes() + bytes(200_000))
    assert offsets(logs) == list(range(5))


def test_a_last_batch_that_a_crash_tore_is_not_read(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    logs.crash()
    path = segment_file(logs)
    path.write_bytes(path.read_bytes()[:-50] + bytes(50))
    assert offsets(logs) == list(range(4))


# --- damage -------------------------------------------------------------------------------------------------


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def test_a_wrong_crc_names_the_file_the_position_and_the_offsets(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    for _ in range(5):
        append(logs.log, batch(b"a", b"b"))
    logs.log.advance_high_watermark(10)
    path = segment_file(logs)
    place = [position for position, _ in iter_headers(path.read_bytes())][2]
    flip(path, place + HEADER_SIZE + 5)
    message = (
        f"{path} is damaged at byte {place}: the CRC of the batch with offsets 4 to 5 is wrong. Restore the "
        f"file from a replica or a backup, or read only up to offset 4 (endingOffsets)."
    )
    for _ in range(2):
        with pytest.raises(LogSourceError) as raised:
            offsets(logs)
        assert str(raised.value) == message
        assert offsets(logs, endingOffsets='{"events": {"0": 4}}') == [0, 1, 2, 3]
        assert offsets(logs, startingOffsets='{"events": {"0": 6}}') == [6, 7, 8, 9]
        logs.stop()


@pytest.mark.parametrize("at", [8, 16], ids=["length", "magic"])
def test_a_damaged_header_is_an_error_with_whole_batches_behind_it(tmp_path: Path, at: int) -> None:
    logs = Logs(tmp_path, config=LogConfig(index_interval_bytes=1 << 20))
    fill(logs.log, 10)
    logs.stop()
    path = segment_file(logs)
    place = [position for position, _ in iter_headers(path.read_bytes())][4]
    flip(path, place + at)
    with pytest.raises(LogSourceError, match=f"is damaged at byte {place}: "):
        offsets(logs)


def test_damage_in_a_segment_that_is_not_the_last_is_an_error(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEVERAL_SEGMENTS)
    fill(logs.log, 40)
    path = segment_file(logs)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(LogSourceError, match=r"00000000000000000000\.log is damaged at byte"):
        offsets(logs)


def test_a_log_that_cannot_be_read_leaves_no_file_open(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEVERAL_SEGMENTS)
    fill(logs.log, 40)
    logs.stop()
    path = segment_file(logs)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(LogSourceError):
        offsets(logs)
    assert open_below(tmp_path) == []


def test_a_log_whose_end_was_lost_leaves_no_file_open(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 10)
    logs.stop()
    path = segment_file(logs)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(LogSourceError):
        offsets(logs)
    assert open_below(tmp_path) == []


def test_messages_of_an_old_format_name_the_topic(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 3)
    old = bytearray(build_batch([Record(value=b"x")]))
    path = segment_file(logs)
    message = bytes([1, 0]) + (0).to_bytes(8, "big") + b"\xff\xff\xff\xff" + (1).to_bytes(4, "big") + b"x"
    body = zlib.crc32(message).to_bytes(4, "big") + message
    old[:] = (3).to_bytes(8, "big") + len(body).to_bytes(4, "big") + body
    for content in (path.read_bytes() + old, bytes(old) * 4):
        path.write_bytes(content)
        with pytest.raises(LogSourceError, match="events-0 holds messages in format v1, from before"):
            offsets(logs)


def test_a_batch_whose_records_cannot_be_read_is_damage(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    logs.crash()
    bad = bytearray(build_batch([Record(value=b"x")], base_offset=1))
    bad[57:61] = (9).to_bytes(4, "big")  # more records than there are
    fix_crc(bad)
    path = segment_file(logs)
    path.write_bytes(path.read_bytes() + bad)
    with pytest.raises(LogSourceError, match=r"is damaged at byte .*: 9 records in 8 bytes"):
        offsets(logs)


# --- indexes are hints --------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["missing", "garbage", "zeros", "cut"])
def test_an_index_that_is_wrong_is_done_without(tmp_path: Path, harm: str) -> None:
    logs = Logs(tmp_path, config=replace(SEVERAL_SEGMENTS, segment_bytes=5000))
    fill(logs.log, 100, step=10)
    logs.crash()
    for path in [*logs.path.glob("*.index"), *logs.path.glob("*.timeindex")]:
        size = path.stat().st_size
        if harm == "missing":
            path.unlink()
        elif harm == "cut":
            path.write_bytes(path.read_bytes()[: size // 2 + 3])
        else:
            path.write_bytes(bytes(size) if harm == "zeros" else b"\x07\x13" * (size // 2))
    assert offsets(logs) == list(range(100))
    assert offsets(logs, startingOffsets='{"events": {"0": 77}}') == list(range(77, 100))
    assert offsets(logs, startingTimestamp=str(START_MS + 771)) == list(range(78, 100))
