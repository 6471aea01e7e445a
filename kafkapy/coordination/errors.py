"""The errors of coordinators, for clients and for the broker's log."""

from __future__ import annotations

from typing import Final

from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError

LOST: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
"""The errors after which the partition cannot be written any more: later appends fail too."""
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_RETRY_LATER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """The error that a client gets when an append failed with `error`."""
    if error in _RETRY_LATER:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in LOST:
        return ErrorCode.NOT_COORDINATOR
    if error in TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error


def describe(error: Exception) -> str:
    """The text of an error of any type, for the log."""
    known = isinstance(error, (KafkaError, DecodeError, OSError))
    return str(error) if known else f"{type(error).__name__}: {error}"
