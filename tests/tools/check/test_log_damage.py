"""Damage in segments is found, where it is.

It is as bad as the next start would make of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c

from kafkapy.protocol.records import Record, build_batch, read_header
from kafkapy.tools.check.finding import Severity
from tests.tools.check.directories import (
    checked,
    files,
    findings,
    flip,
    killed,
    partition_line,
    severities,
    stopped,
)

FIELDS = {"base offset": 5, "length": 11, "epoch": 15, "magic": 16, "crc": 20, "attributes": 22, "record": 70}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("segment", [0, 1])
def test_a_flipped_bit_in_a_batch_is_damage_at_its_place(tmp_path: Path, field: str, segment: int) -> None:
    path = stopped(tmp_path)
    log = files(path, ".log")[segment]
    first = read_header(log.read_bytes())
    flip(log, first.size + FIELDS[field], 0x02)
    found, summary = checked(path.parent)
    assert summary.exit_status == 1
    worst = [finding for finding in found if finding.severity is Severity.DAMAGED]
    assert worst[0].path == str(log)
    assert worst[0].position == first.size
    assert worst[0].offset == first.next_offset
    assert all(finding.severity is Severity.DAMAGED for finding in found)


def test_what_lies_behind_damage_is_looked_at(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    log = files(path, ".log")[0]
    header = read_header(log.read_bytes())
    flip(log, 11, 0xFF)  # the length of the first batch: nothing says where the next begins
    flip(log, header.size + 100)
    found = findings(path.parent)
    assert [finding.position for finding in found] == [0]
    assert f"offsets 0 to {read_header(log.read_bytes(), header.size).last_offset}" in found[0].what


def test_damage_that_was_acknowledged_is_told_from_what_the_next_start_cuts(tmp_path: Path) -> None:
    flushed = killed(tmp_path / "flushed")
    flip(files(flushed, ".log")[-1], 100)
    assert severities(findings(flushed.parent)) == {Severity.DAMAGED}
    unknown = killed(tmp_path / "unknown", flushed=False)
    flip(files(unknown, ".log")[-1], 100)
    assert severities(findings(unknown.parent)) == {Severity.REPAIRED}
    (unknown.parent / "replication-offset-checkpoint").write_text(partition_line(10_000))
    assert severities(findings(unknown.parent)) == {Severity.DAMAGED}


@pytest.mark.parametrize("tail", [bytes(200), bytes(build_batch([Record(value=b"x" * 100)]))[:90], b"\0" * 7])
def test_a_torn_tail_behind_what_was_on_disk_is_repaired(tmp_path: Path, tail: bytes) -> None:
    path = killed(tmp_path)
    log = files(path, ".log")[-1]
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(tail)
    [found] = findings(path.parent)
    assert found.severity is Severity.REPAIRED
    assert found.position == size


def test_a_log_that_lost_its_end_is_damaged(tmp_path: Path) -> None:
    path = killed(tmp_path)
    log = files(path, ".log")[-1]
    log.write_bytes(b"")
    [found] = [each for each in findings(path.parent) if each.severity is Severity.DAMAGED]
    assert "below its recovery point" in found.what
    assert found.offset == int(log.name[:20])


def test_a_missing_segment_is_a_gap(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    second, third = files(path, ".log")[1:3]
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        second.with_suffix(suffix).unlink(missing_ok=True)
    [found] = findings(path.parent)
    assert found.severity is Severity.DAMAGED
    assert found.what.startswith(f"offsets {int(second.name[:20])} to {int(third.name[:20]) - 1} are missing")


def test_a_batch_behind_the_offset_of_a_clean_stop_is_found(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    log = files(path, ".log")[-1]
    with log.open("ab") as file:
        file.write(build_batch([Record(timestamp=1, value=b"x")], base_offset=5000, leader_epoch=9))
    assert any("the broker stopped at offset" in found.what for found in findings(path.parent))


def test_records_that_cannot_be_read_are_found_by_a_deep_check_only(tmp_path: Path) -> None:
    path = killed(tmp_path, flushed=False)
    log = files(path, ".log")[-1]
    end = _end_offset(path)
    batch = build_batch([Record(timestamp=1, value=b"x" * 20)], base_offset=end, leader_epoch=3)
    batch[61] = 0xFF  # the record's length
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    with log.open("ab") as file:
        file.write(batch)
    assert findings(path.parent, deep=False) == []
    [found] = findings(path.parent)
    assert found.offset == end
    assert found.severity is Severity.DAMAGED, "no start looks into batches whose CRC is right"


def test_a_transaction_marker_that_no_broker_can_read_is_found(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    log = files(path, ".log")[0]
    data = bytearray(log.read_bytes())
    position = 0
    while not (header := read_header(data, position)).is_control:
        position += header.size
    end = position + header.size
    data[end - 7 : end - 5] = b"\xff\xff"  # the version of the marker's value
    data[position + 17 : position + 21] = crc32c(data[position + 21 : end]).to_bytes(4, "big")
    log.write_bytes(data)
    [found] = findings(path.parent, deep=False)
    assert found.what.startswith("a transaction marker that cannot be read")
    assert found.position == position


def _end_offset(path: Path) -> int:
    data = files(path, ".log")[-1].read_bytes()
    position, end = 0, 0
    while position < len(data):
        header = read_header(data, position)
        position, end = position + header.size, header.next_offset
    return end


def test_what_a_broker_has_set_aside_is_told_once(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    log = files(path, ".log")[0]
    first = read_header(log.read_bytes())
    flip(log, 80)
    (path / "damaged-offsets").write_text(f"0\n1\n0 0 {first.size} 0 {first.next_offset}\n")
    [found] = findings(path.parent)
    assert found.path == str(log)
    flip(log, 80)
    [found] = findings(path.parent)
    assert found.path == str(path / "damaged-offsets")
    assert "they are good" in found.what
