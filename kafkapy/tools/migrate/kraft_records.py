"""Records of Kafka's metadata log (KRaft): each holds one message in a frame.

The value of a record has these parts; the integers are unsigned varints:

    frame version   1
    type            which message, `KEY` of the classes in protocol/messages/metadata_records.py
    version         of the message
    message

Control records are in batches of their own, with the control bit set. The key holds the version (int16, 0)
and the type (int16); the value is a message in version 0. A snapshot begins with a SnapshotHeaderRecord. If
voters can be changed (kraft.version 1, KIP-853), KRaftVersionRecord and VotersRecord follow. It ends with a
SnapshotFooterRecord.

Source: AbstractApiMessageSerde, MetadataRecordSerde, ControlRecordType; KIP-630.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Final

from kafkapy.protocol.codec import decode_from, encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import metadata_records
from kafkapy.protocol.primitives import encode_uvarint, read_uvarint

_FRAME_VERSION: Final = 1


def encode_metadata_record(message: TopMessage, version: int) -> bytes:
    """Return the value of a record that holds `message`."""
    assert message.KEY is not None
    head = (encode_uvarint(number) for number in (_FRAME_VERSION, message.KEY, version))
    return b"".join(head) + encode(message, version)


def decode_metadata_record(value: bytes | None) -> TopMessage | int:
    """Return the message in a record, or the number of its type if the type is unknown.

    Raises:
        DecodeError: the record is damaged, or its version is unknown.
    """
    if value is None:
        raise DecodeError("a metadata record without a value")
    try:
        frame, at = read_uvarint(value, 0)
        if frame != _FRAME_VERSION:
            raise DecodeError(f"a metadata record with frame version {frame}")
        key, at = read_uvarint(value, at)
        version, at = read_uvarint(value, at)
    except IndexError:
        raise DecodeError("a metadata record that is too short") from None
    message_class = _classes().get(key)
    if message_class is None:
        return key
    return decode_from(message_class, value, at, version)[0]


@cache
def _classes() -> dict[int, type[TopMessage]]:
    return {
        each.KEY: each
        for _, each in inspect.getmembers(metadata_records, inspect.isclass)
        if issubclass(each, TopMessage) and each is not TopMessage and each.KEY is not None
    }
