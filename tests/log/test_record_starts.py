"""Both twins of follow_lengths say the same.

They say where records begin, or that they do not fill their batch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkapy.log.record_starts import FollowLengths, follow_lengths_purely
from tests.protocol.record_strategies import varint

BUILT = find_spec("kafkapy.protocol._walker") is not None
follow_lengths_compiled: FollowLengths = (
    import_module("kafkapy.protocol._walker").follow_lengths if BUILT else follow_lengths_purely
)
compiled = pytest.mark.skipif(not BUILT, reason="the compiled walker was not built: no compiler?")
twins = pytest.mark.parametrize(
    "follow",
    [follow_lengths_purely, pytest.param(follow_lengths_compiled, marks=compiled)],
    ids=["pure", "compiled"],
)


def starts(follow: FollowLengths, data: bytes, start: int, end: int, count: int) -> list[int] | None:
    """What it found; None where the records do not fill their place."""
    out = np.zeros(count, np.int64)
    return out.tolist() if follow(data, start, end, count, out) else None


@twins
def test_each_record_begins_behind_the_one_before_it(follow: FollowLengths) -> None:
    bodies = [b"", b"x" * 63, b"y" * 64, b"z" * 70_000]
    data = b"?" * 3
    expected = []
    for body in bodies:
        expected.append(len(data))
        data += varint(len(body)) + body
    assert starts(follow, data + b"?", 3, len(data), 4) == expected
    assert starts(follow, data, 3, len(data), 3) is None, "a record too many"
    assert starts(follow, data, 3, len(data), 5) is None, "a record too few"
    assert starts(follow, data, 3, len(data) - 1, 4) is None, "the last one passes the end"
    assert starts(follow, data, 3, 3, 0) == []


@twins
def test_large_batches_are_followed_too(follow: FollowLengths) -> None:
    data = (varint(100) + bytes(100)) * 5_000
    assert starts(follow, data, 0, len(data), 5_000) == list(range(0, len(data), 102))


odd_lengths = (
    st.binary(max_size=6) | st.integers(-3, 300).map(varint) | st.integers(-(2**31), 2**31 - 1).map(varint)
)


@compiled
@settings(max_examples=1000)
@given(
    st.lists(st.builds(bytes.__add__, odd_lengths, st.binary(max_size=8)), max_size=6).map(b"".join),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(0, 8),
)
@example(b"\xff\xff\xff\xff\x0f", 0, 0, 1)
@example(b"\xff\xff\xff\xff\x10", 0, 0, 1)
@example(b"\x80\x80\x80\x80\x80\x00", 0, 0, 1)
@example(b"\x80\x80\x80\x80\x00", 0, 0, 1)
@example(b"\x01", 0, 0, 1)
@example(b"\x80", 0, 0, 1)
def test_the_twins_agree_on_any_bytes(data: bytes, before: int, behind: int, count: int) -> None:
    start = min(before, len(data))
    end = max(len(data) - behind, start)
    assert starts(follow_lengths_compiled, data, start, end, count) == starts(
        follow_lengths_purely, data, start, end, count
    )


@compiled
@pytest.mark.parametrize("place", [(-1, 2, 1), (2, 1, 1), (0, 5, 1), (0, 4, 2), (0, 4, -1)])
def test_a_place_outside_the_data_is_a_mistake_of_the_caller(place: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="outside the data"):
        follow_lengths_compiled(b"\x02x\x00\x00", *place, np.zeros(1, np.int64))
