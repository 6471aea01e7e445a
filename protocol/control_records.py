"""Control records: what brokers write between the records of clients.

They are in batches with the control bit set. Consumers do not return them to applications. A marker of a
transaction coordinator is the only record of its batch. The other types are in KRaft's metadata log and its
snapshots.

Source: Kafka's `ControlRecordType`, `EndTransactionMarker`; KIP-98.
"""

import struct
from enum import IntEnum

from kafkapy.protocol.errors import DecodeError

_KEY = struct.Struct(">hh")
_END_TXN_MARKER = struct.Struct(">hi")


class ControlType(IntEnum):
    """The type in a control record's key; readers skip types that they do not know."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_record_key(control_type: ControlType) -> bytes:
    """Return a control record's key: version 0 (int16), type (int16)."""
    return _KEY.pack(0, control_type)


def parse_control_record_key(key: bytes | None) -> int:
    """Return the type, which is one of `ControlType` or of a later Kafka.

    Raises:
        DecodeError: the key is too short or of an unknown version.
    """
    if key is None or len(key) < _KEY.size:
        raise DecodeError("a control record's key needs 4 bytes")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise DecodeError(f"a control record's key of version {version}")
    return int(control_type)


def end_txn_marker_value(coordinator_epoch: int) -> bytes:
    """Return a marker's value: version 0 (int16), coordinator epoch (int32)."""
    return _END_TXN_MARKER.pack(0, coordinator_epoch)


def parse_end_txn_marker_value(value: bytes | None) -> int:
    """Return the coordinator epoch; later versions append fields to version 0.

    Raises:
        DecodeError: the value is too short or of an impossible version.
    """
    if value is None or len(value) < _END_TXN_MARKER.size:
        raise DecodeError("an end transaction marker needs 6 bytes")
    version, coordinator_epoch = _END_TXN_MARKER.unpack_from(value)
    if version < 0:
        raise DecodeError(f"an end transaction marker of version {version}")
    return int(coordinator_epoch)
