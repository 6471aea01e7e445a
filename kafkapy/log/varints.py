"""Zigzag varints, many at once: the fast twin of `protocol.records.read_varint`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]


class OddRecordsError(ValueError):
    """Records that the fast path does not expect; the slow path decodes or refuses them."""


def read_varints(data: Bytes, at: Integers, bits: int) -> tuple[Integers, Integers]:
    """Return the varints of up to 32 or 64 bits at positions `at`, and where they end.

    Raises:
        OddRecordsError: a varint has more bits, or the data ends within it.
    """
    try:
        byte = data[at]
        after = at + 1
        value = byte.astype(np.uint64)
        longer = np.flatnonzero(byte >= 0x80)
        if longer.size:
            value &= 0x7F
            _read_on(data, at, bits, longer, value, after)
    except IndexError:
        raise OddRecordsError("the data ends within a varint") from None
    signed = (value >> np.uint64(1)).view(np.int64)
    signed ^= -(value & np.uint64(1)).view(np.int64)
    return signed, after


def _read_on(
    data: Bytes, at: Integers, bits: int, longer: Integers, value: npt.NDArray[np.uint64], after: Integers
) -> None:
    """Add the remaining bytes of the varints numbered `longer`."""
    for index, shift in enumerate(range(7, bits, 7), 1):
        byte = data[at[longer] + index]
        if shift + 7 > bits and (byte >> (bits - shift)).any():
            break
        value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[longer] += 1
        longer = longer[byte >= 0x80]
        if not longer.size:
            return
    raise OddRecordsError("a varint that is too long")
