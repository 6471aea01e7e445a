"""A committed offset as the value of its record."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.groups.offsets.committed_offset import (
    CommittedOffset,
    decode_offset,
    decode_offset_by_codec,
    encode_offset,
    require_readable,
)
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.group_records import OffsetCommitValue
from kafkapy.protocol.types import ZERO_UUID

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
offsets = st.builds(
    CommittedOffset,
    int64s,
    int32s,
    st.just("") | st.text(max_size=200),
    int64s,
    st.just(-1) | st.integers(0, 2**63 - 1),
    st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
)


@given(offsets)
def test_an_offset_value_is_what_the_codec_makes_of_it(committed: CommittedOffset) -> None:
    encoded = encode_offset(*committed)
    version = 4 if committed.expire_timestamp == -1 else 1
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp,
        expire_timestamp=committed.expire_timestamp,
        topic_id=committed.topic_id,
    )
    assert encoded == struct.pack(">h", version) + encode(value, version)


@given(offsets)
def test_what_is_written_of_an_offset_is_read_again(committed: CommittedOffset) -> None:
    read = decode_offset(encode_offset(*committed))
    if committed.expire_timestamp == -1:
        assert read == committed
    else:
        assert read == committed._replace(leader_epoch=-1, topic_id=ZERO_UUID)


changes = st.tuples(st.integers(0, 79), st.none() | st.binary(max_size=3))
"""At a place that may be in the bytes, they end there, or others come between."""


def changed(data: bytes, change: tuple[int, bytes | None]) -> bytes:
    place, inserted = change
    return data[:place] if inserted is None else data[:place] + inserted + data[place + len(inserted) :]


@given(offsets, changes)
def test_bytes_of_an_offset_are_read_as_the_codec_reads_them(
    committed: CommittedOffset, change: tuple[int, bytes | None]
) -> None:
    data = changed(encode_offset(*committed), change)

    def outcome(decode: Callable[[bytes], CommittedOffset]) -> CommittedOffset | None:
        try:
            return decode(data)
        except DecodeError:
            return None

    assert outcome(decode_offset) == outcome(decode_offset_by_codec)
    if outcome(decode_offset_by_codec) is not None:
        require_readable(data)
        return
    with pytest.raises(DecodeError):
        require_readable(data)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_an_offset_is_understood(version: int) -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=6)
    read = decode_offset(struct.pack(">h", version) + encode(value, version))
    assert (read.offset, read.metadata, read.commit_timestamp, read.expire_timestamp) == (5, "m", 6, -1)


@pytest.mark.parametrize("broken", [b"", b"\x00\x05", b"\xff\xff", b"\x00\x03\x00"])
def test_a_broken_value_is_a_decode_error(broken: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_offset(broken)
