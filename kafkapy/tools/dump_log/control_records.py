"""Control records: what coordinators and KRaft's leader write between clients' records.

The key holds a version and a type, each an int16. The value is a message of that type.

Source: Kafka's ControlRecordType, ControlRecordUtils.
"""

from __future__ import annotations

from kafkapy.protocol.codec import decode
from kafkapy.protocol.control_records import ControlType, parse_control_record_key, parse_end_txn_marker_value
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kafkapy.protocol.records import Record
from kafkapy.tools.dump_log.fact import Values
from kafkapy.tools.dump_log.message_json import message_json

_KRAFT: dict[int, tuple[str, type[TopMessage]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}
"""The name that is printed and the class of the message, by type."""


def control_values(record: Record) -> Values:
    """Return what a control record says, or why it cannot be read."""
    try:
        kind = parse_control_record_key(record.key)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            return {
                "endTxnMarker": ControlType(kind).name,
                "coordinatorEpoch": parse_end_txn_marker_value(record.value),
            }
        if kind not in _KRAFT:
            return {"controlType": f"UNKNOWN({kind})"}
        name, message_class = _KRAFT[kind]
        return {name: _message(message_class, record.value or b"")}
    except DecodeError as error:
        return {"controlError": str(error)}


def _message(message_class: type[TopMessage], value: bytes) -> Values:
    """Decode a message that begins with its version; a newer one is read as the last known."""
    version = int.from_bytes(value[:2], "big", signed=True)
    first, last = message_class.VERSIONS
    version = min(max(version, first), last)
    return message_json(decode(message_class, value, version), version)
