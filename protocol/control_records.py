"""Control records: the markers that a transaction coordinator writes into partitions.

They come in batches with the control bit set, one record each, which consumers use and do not hand on.

Source: Kafka's `ControlRecordType`, `EndTransactionMarker`; KIP-98.
"""

import struct
from enum import IntEnum

from kafkapy.protocol.errors import DecodeError

_KEY = struct.Struct(">hh")
_END_TXN_MARKER = struct.Struct(">hi")


class ControlType(IntEnum):
    """The type in a control record's key. Readers skip types they do not know."""

    ABORT = 0
    COMMIT = 1


def control_record_key(control_type: ControlType) -> bytes:
    """A control record's key: version 0 (int16), type (int16)."""
    return _KEY.pack(0, control_type)


def parse_control_record_key(key: bytes | None) -> int:
    """The type, one of `ControlType` or one of a later Kafka. Raises DecodeError."""
    if key is None or len(key) < _KEY.size:
        raise DecodeError("a control record's key needs 4 bytes")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise DecodeError(f"a control record's key of version {version}")
    return int(control_type)


def end_txn_marker_value(coordinator_epoch: int) -> bytes:
    """The value of an ABORT or COMMIT record: version 0 (int16), coordinator epoch (int32)."""
    return _END_TXN_MARKER.pack(0, coordinator_epoch)


def parse_end_txn_marker_value(value: bytes | None) -> int:
    """The coordinator epoch. Later versions append to version 0. Raises DecodeError."""
    if value is None or len(value) < _END_TXN_MARKER.size:
        raise DecodeError("an end transaction marker needs 6 bytes")
    version, coordinator_epoch = _END_TXN_MARKER.unpack_from(value)
    if version < 0:
        raise DecodeError(f"an end transaction marker of version {version}")
    return int(coordinator_epoch)
