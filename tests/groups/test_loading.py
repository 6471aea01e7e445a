"""What a coordinator restores from a partition of `__consumer_offsets`."""

from __future__ import annotations

import logging
import sys
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.coordination import replay
from kafkapy.groups import loading
from kafkapy.groups.classic.metadata import restore_group
from kafkapy.groups.classic.records import encode_group_key
from kafkapy.groups.loading import GroupReplay, LoadedPartition
from kafkapy.groups.offsets.committed_offset import decode_offset, encode_offset
from kafkapy.groups.offsets.records import offset_records
from kafkapy.groups.records import OffsetKey, decode_key
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.group_records import GroupMetadataValue, MemberMetadata
from kafkapy.protocol.records import Record, build_batch
from kafkapy.protocol.types import TopicPartition

changes = st.tuples(st.integers(0, 20), st.none() | st.binary(max_size=3))
"""At a place that may be in the bytes, they end there, or others come between."""


def changed(data: bytes, change: tuple[int, bytes | None]) -> bytes:
    place, inserted = change
    return data[:place] if inserted is None else data[:place] + inserted + data[place + len(inserted) :]


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Log:
    """A log of batches, one after another."""

    def __init__(self) -> None:
        self.replay = GroupReplay("__consumer_offsets-0")
        self.end = 0

    def write(
        self, *records: tuple[bytes | None, bytes | None], producer: int = -1, compress: bool = False
    ) -> Log:
        self._add(
            build_batch(
                [Record(-1, 0, key, value, []) for key, value in records],
                base_offset=self.end,
                producer_id=producer,
                producer_epoch=-1 if producer < 0 else 0,
                transactional=producer >= 0,
                compression=Compression.GZIP if compress else Compression.NONE,
            )
        )
        self.end += len(records)
        return self

    def offset(self, key: TopicPartition, offset: int, producer: int = -1) -> Log:
        value = encode_offset(offset, -1, "", 0)
        return self.write(*offset_records("g", {key: value}), producer=producer)

    def tombstone(self, key: TopicPartition) -> Log:
        return self.write(*offset_records("g", {key: None}))

    def end_transaction(self, producer: int, control: ControlType) -> Log:
        marker = Record(-1, 0, control_record_key(control), end_txn_marker_value(0), [])
        self._add(
            build_batch(
                [marker],
                base_offset=self.end,
                producer_id=producer,
                producer_epoch=0,
                transactional=True,
                control=True,
            )
        )
        self.end += 1
        return self

    def _add(self, batch: bytearray) -> None:
        self.replay.add(bytes(batch))

    @property
    def loaded(self) -> LoadedPartition:
        return self.replay.result()

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        return {key: decode_offset(each).offset for key, each in self.loaded.offsets.get("g", {}).items()}


def test_the_last_commit_of_a_partition_counts() -> None:
    assert Log().offset(T0, 1).offset(T1, 7).offset(T0, 2).offsets == {T0: 2, T1: 7}


def test_the_name_of_a_partition_is_kept_once_for_several_groups() -> None:
    log = Log()
    for group in ("g", "h"):
        log.write(*offset_records(group, {T0: encode_offset(1, -1, "note", 1_700_000_000_000)}))
    offsets = log.loaded.offsets
    (one,), (other,) = (offsets[group] for group in ("g", "h"))
    assert one is other


def test_an_offset_takes_little_more_memory_than_its_record() -> None:
    groups, partitions = 20, 100
    value = encode_offset(1000, -1, "", 1_700_000_000_000, topic_id=b"i" * 16)
    log = Log()
    for number in range(groups):
        offsets = {TopicPartition("topic", n): value for n in range(partitions)}
        log.write(*offset_records(f"group {number}", offsets))
    tracemalloc.start()
    try:
        loaded = log.loaded
        nbytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    nbytes += sum(sys.getsizeof(each) for offsets in loaded.offsets.values() for each in offsets.values())
    assert nbytes / (groups * partitions) < 150


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.integers(0, 2), changes), max_size=9))
def test_keys_are_taken_apart_as_the_codec_does(
    keys: list[tuple[str, str, int, tuple[int, bytes | None]]],
) -> None:
    log = Log()
    expected: dict[str, dict[TopicPartition, int]] = {}
    last: dict[bytes, int] = {}
    for number, (group, topic, partition, change) in enumerate(keys):
        ((key, value),) = offset_records(
            group, {TopicPartition(topic, partition): encode_offset(number, -1, "", 0)}
        )
        key = changed(key, change)
        log.write((key, value))
        last[key] = number
    for key, number in last.items():
        try:
            found = decode_key(key)
        except DecodeError:
            continue
        if isinstance(found, OffsetKey):
            expected.setdefault(found.group_id, {})[found.partition] = number
    assert {
        group: {key: decode_offset(value).offset for key, value in offsets.items()}
        for group, offsets in log.loaded.offsets.items()
    } == expected


def test_a_tombstone_removes_what_was_there() -> None:
    assert Log().offset(T0, 1).offset(T1, 7).tombstone(T0).offsets == {T1: 7}
    assert Log().offset(T0, 1).tombstone(T0).offset(T0, 3).offsets == {T0: 3}


def test_compressed_batches_count_like_others() -> None:
    value = encode_offset(5, -1, "", 0)
    assert Log().write(*offset_records("g", {T0: value}), compress=True).offsets == {T0: 5}


def test_a_group_that_was_deleted_is_gone() -> None:
    key = encode_group_key("g")
    log = Log().write((key, b"\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x00"))
    assert log.loaded.groups["g"].generation == 1
    assert log.write((key, None)).loaded.groups == {}


class TestTransactions:
    def test_offsets_count_from_the_commit_marker_on(self) -> None:
        log = Log().offset(T0, 1).offset(T0, 9, producer=4)
        assert log.offsets == {T0: 1}
        assert log.end_transaction(4, ControlType.COMMIT).offsets == {T0: 9}

    def test_aborted_offsets_do_not_count(self) -> None:
        log = Log().offset(T0, 1).offset(T0, 9, producer=4).end_transaction(4, ControlType.ABORT)
        assert log.offsets == {T0: 1}

    def test_a_later_commit_outside_of_it_wins(self) -> None:
        log = Log().offset(T0, 9, producer=4).offset(T0, 5).end_transaction(4, ControlType.COMMIT)
        assert log.offsets == {T0: 5}

    def test_a_tombstone_removes_what_is_pending(self) -> None:
        log = Log().offset(T0, 9, producer=4).tombstone(T0).end_transaction(4, ControlType.COMMIT)
        assert log.offsets == {}

    def test_each_producer_has_its_own(self) -> None:
        log = Log().offset(T0, 1, producer=4).offset(T1, 2, producer=5)
        assert log.end_transaction(5, ControlType.COMMIT).offsets == {T1: 2}


def test_a_record_that_cannot_be_read_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    log = Log().offset(T0, 1).write(*offset_records("g", {T1: b"\x00\x63"})).write((None, b"x"))
    with caplog.at_level(logging.ERROR):
        assert log.offsets == {T0: 1}
    assert "offset 1 cannot be read" in caplog.text


def test_a_batch_that_cannot_be_read_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    log = Log().offset(T0, 1)
    batch = build_batch([Record(-1, 0, b"k", b"v", [])], base_offset=1)
    batch[-3] = 0x7F
    log.replay.add(bytes(batch))
    log.end = 2
    assert log.offset(T1, 7).offsets == {T0: 1, T1: 7}
    assert "offsets 1 to 1 cannot be read" in caplog.text


def test_a_control_record_of_nothing_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    log = Log().offset(T0, 9, producer=4)
    log._add(
        build_batch(
            [Record(-1, 0, None, b"", [])],
            base_offset=1,
            producer_id=4,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )
    log.end = 2
    assert log.end_transaction(4, ControlType.COMMIT).offsets == {T0: 9}
    assert "offsets 1 to 1 cannot be read" in caplog.text


def check_by(check: Callable[[bytes], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each committed offset checked so."""
    monkeypatch.setattr(loading, "require_readable", check)


def test_a_mistake_in_one_record_costs_that_record(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def require_readable(value: bytes) -> None:
        if decode_offset(value).offset == 7:
            raise ZeroDivisionError("a mistake")

    check_by(require_readable, monkeypatch)
    assert Log().offset(T0, 1).offset(T1, 7).offsets == {T0: 1}
    assert "ZeroDivisionError: a mistake" in caplog.text


def test_a_lack_of_memory_is_no_odd_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    log = Log().offset(T0, 1)
    check_by(fail, monkeypatch)
    with pytest.raises(MemoryError):
        log.replay.result()
    monkeypatch.setattr(replay, "decode_key_values", fail)
    with pytest.raises(MemoryError):
        log.offset(T1, 7)


@pytest.mark.parametrize(
    "value",
    [
        GroupMetadataValue(
            protocol_type="", protocol="p", leader="m", members=[MemberMetadata(member_id="m")]
        ),
        GroupMetadataValue(
            protocol_type="consumer", protocol=None, leader="m", members=[MemberMetadata(member_id="m")]
        ),
        GroupMetadataValue(
            protocol_type="consumer",
            protocol="p",
            leader="m",
            members=[MemberMetadata(member_id="m"), MemberMetadata(member_id="m")],
        ),
    ],
)
def test_a_group_that_cannot_be_is_a_decode_error(value: GroupMetadataValue) -> None:
    with pytest.raises(DecodeError):
        restore_group("g", value)
