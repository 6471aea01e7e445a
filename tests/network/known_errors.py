"""The errors that a client of each version knows in each answer.

They are those that the Java clients of Apache Kafka 4.3.1 handle by name, and those that its brokers give
there all the same. Before the version at an error, its brokers give another one. A client takes an error that
it does not know for a fatal one.

`RawClient.ask` looks at each answer, so each test over the wire walks this table.

Source: Apache Kafka's AbstractCoordinator, ConsumerCoordinator, CommitRequestManager, TransactionManager,
KafkaApis, OffsetMetadataManager, and the comments of its responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message

ALWAYS: Final = 0


_RIGHTS: Final = (
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)
"""The errors of clients without rights, which are as old as Kafka's authorizers and transactions."""


def _known(names: str, **since: int) -> Mapping[ErrorCode, int]:
    """Errors with the version from which on they are known."""
    return {
        **{ErrorCode[name]: ALWAYS for name in ("NONE", "UNKNOWN_SERVER_ERROR", *_RIGHTS, *names.split())},
        **{ErrorCode[name]: version for name, version in since.items()},
    }


_COORDINATOR = "COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR "
_MEMBER = _COORDINATOR + "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION INVALID_GROUP_ID REBALANCE_IN_PROGRESS "
_PRODUCER = (
    _COORDINATOR + "INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE INVALID_REQUEST "
)
_HEARTBEAT = (
    _COORDINATOR + "INVALID_REQUEST UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH GROUP_MAX_SIZE_REACHED "
    "GROUP_ID_NOT_FOUND UNSUPPORTED_VERSION "
)
_DESCRIBE = _COORDINATOR + "INVALID_GROUP_ID GROUP_ID_NOT_FOUND UNSUPPORTED_VERSION "

KNOWN: Final[Mapping[str, Mapping[ErrorCode, int]]] = {
    "JoinGroup": _known(
        _MEMBER + "INCONSISTENT_GROUP_PROTOCOL INVALID_SESSION_TIMEOUT GROUP_MAX_SIZE_REACHED",
        MEMBER_ID_REQUIRED=4,
        FENCED_INSTANCE_ID=5,
    ),
    "SyncGroup": _known(_MEMBER + "INCONSISTENT_GROUP_PROTOCOL", FENCED_INSTANCE_ID=3),
    "Heartbeat": _known(_MEMBER, FENCED_INSTANCE_ID=3),
    "LeaveGroup": _known(_COORDINATOR + "UNKNOWN_MEMBER_ID INVALID_GROUP_ID", FENCED_INSTANCE_ID=3),
    "OffsetCommit": _known(
        _MEMBER + "UNKNOWN_TOPIC_OR_PARTITION OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE "
        "UNSUPPORTED_VERSION",
        FENCED_INSTANCE_ID=7,
        STALE_MEMBER_EPOCH=9,
        GROUP_ID_NOT_FOUND=9,
        UNKNOWN_TOPIC_ID=10,
    ),
    "OffsetFetch": _known(
        _COORDINATOR + "UNKNOWN_TOPIC_OR_PARTITION INVALID_GROUP_ID GROUP_ID_NOT_FOUND",
        UNSTABLE_OFFSET_COMMIT=7,
        UNKNOWN_MEMBER_ID=9,
        STALE_MEMBER_EPOCH=9,
        ILLEGAL_GENERATION=9,
        UNKNOWN_TOPIC_ID=10,
    ),
    "TxnOffsetCommit": _known(
        "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING "
        "INVALID_TXN_STATE OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE INVALID_GROUP_ID "
        "UNKNOWN_TOPIC_OR_PARTITION CONCURRENT_TRANSACTIONS",
        COORDINATOR_LOAD_IN_PROGRESS=2,
        UNKNOWN_MEMBER_ID=3,
        FENCED_INSTANCE_ID=3,
        ILLEGAL_GENERATION=3,
        TRANSACTION_ABORTABLE=4,
    ),
    "OffsetDelete": _known(
        _COORDINATOR + "INVALID_GROUP_ID GROUP_ID_NOT_FOUND NON_EMPTY_GROUP GROUP_SUBSCRIBED_TO_TOPIC "
        "UNKNOWN_TOPIC_OR_PARTITION"
    ),
    "DeleteGroups": _known(_COORDINATOR + "INVALID_GROUP_ID NON_EMPTY_GROUP GROUP_ID_NOT_FOUND"),
    "DescribeGroups": _known(_COORDINATOR + "INVALID_GROUP_ID", GROUP_ID_NOT_FOUND=6),
    "ListGroups": _known(_COORDINATOR),
    "ConsumerGroupHeartbeat": _known(
        _HEARTBEAT + "UNSUPPORTED_ASSIGNOR UNRELEASED_INSTANCE_ID FENCED_INSTANCE_ID",
        INVALID_REGULAR_EXPRESSION=1,
    ),
    "ShareGroupHeartbeat": _known(_HEARTBEAT),
    "StreamsGroupHeartbeat": _known(
        _HEARTBEAT + "STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED"
    ),
    "ConsumerGroupDescribe": _known(_DESCRIBE),
    "ShareGroupDescribe": _known(_DESCRIBE),
    "StreamsGroupDescribe": _known(_DESCRIBE),
    "InitProducerId": _known(
        _COORDINATOR + "INVALID_PRODUCER_EPOCH INVALID_REQUEST INVALID_TRANSACTION_TIMEOUT "
        "INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE CONCURRENT_TRANSACTIONS UNSUPPORTED_VERSION "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED REQUEST_TIMED_OUT",
        PRODUCER_FENCED=4,
        TRANSACTION_ABORTABLE=5,
    ),
    "AddPartitionsToTxn": _known(
        _PRODUCER + "OPERATION_NOT_ATTEMPTED CONCURRENT_TRANSACTIONS TOPIC_AUTHORIZATION_FAILED "
        "UNKNOWN_TOPIC_OR_PARTITION UNSUPPORTED_VERSION CLUSTER_AUTHORIZATION_FAILED",
        PRODUCER_FENCED=2,
        TRANSACTION_ABORTABLE=4,
    ),
    "AddOffsetsToTxn": _known(
        _PRODUCER + "CONCURRENT_TRANSACTIONS INVALID_GROUP_ID", PRODUCER_FENCED=2, TRANSACTION_ABORTABLE=4
    ),
    "EndTxn": _known(_PRODUCER + "CONCURRENT_TRANSACTIONS", PRODUCER_FENCED=2, TRANSACTION_ABORTABLE=4),
    "ListOffsets": _known(
        "UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER LEADER_NOT_AVAILABLE KAFKA_STORAGE_ERROR "
        "REPLICA_NOT_AVAILABLE UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_REQUEST UNSUPPORTED_VERSION "
        "REQUEST_TIMED_OUT TOPIC_AUTHORIZATION_FAILED OFFSET_OUT_OF_RANGE "
        "MESSAGE_TOO_LARGE",  # of max.decompressed.message.bytes: Apache Kafka has no such limit
        FENCED_LEADER_EPOCH=4,
        UNKNOWN_LEADER_EPOCH=4,
        OFFSET_NOT_AVAILABLE=5,
    ),
}

NOT_BEFORE: Final[Mapping[tuple[str, ErrorCode], int]] = {
    ("Produce", ErrorCode.TRANSACTION_ABORTABLE): 11,
    ("Produce", ErrorCode.UNKNOWN_TOPIC_ID): 13,
    ("Fetch", ErrorCode.FENCED_LEADER_EPOCH): 9,
    ("Fetch", ErrorCode.UNKNOWN_LEADER_EPOCH): 9,
    ("Fetch", ErrorCode.UNKNOWN_TOPIC_ID): 13,
    ("Fetch", ErrorCode.INCONSISTENT_TOPIC_ID): 13,
    ("Fetch", ErrorCode.FETCH_SESSION_ID_NOT_FOUND): 7,
    ("Fetch", ErrorCode.INVALID_FETCH_SESSION_EPOCH): 7,
    ("Fetch", ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR): 13,
    ("Metadata", ErrorCode.UNKNOWN_TOPIC_ID): 10,
}
"""The first version that knows an error, in answers whose other errors are not listed."""


def unknown_errors(name: str, version: int, response: object) -> list[str]:
    """The errors in an answer of this API that its client does not know."""
    known = KNOWN.get(name)
    return [
        f"{name} v{version}: {error.name}"
        for error in dict.fromkeys(errors_in(response))
        if (version < NOT_BEFORE.get((name, error), ALWAYS) if known is None else error not in known)
        or (known is not None and version < known.get(error, ALWAYS))
    ]


def errors_in(response: object) -> Iterator[ErrorCode]:
    """All errors in an answer."""
    waiting: list[Any] = [response]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, (list, tuple)):
            waiting += thing
        elif isinstance(thing, Message):
            for field in thing.__slots__:
                value = getattr(thing, field)
                if field.endswith("error_code"):
                    yield ErrorCode(value)
                else:
                    waiting.append(value)
