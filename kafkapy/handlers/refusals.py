"""The answers to requests that the table of rights refuses in front of their handlers.

Most answers have one error for the whole request. The others repeat what the request names, with an error
for each. Source: getErrorResponse of Kafka's requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any, Final

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, answer_partitions, visit_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    delete_share_group_state,
    elect_leaders,
    initialize_share_group_state,
    offset_commit,
    read_share_group_state,
    read_share_group_state_summary,
    response_class,
    txn_offset_commit,
    write_share_group_state,
    write_txn_markers,
)
from kafkapy.protocol.types import ApiKey
from kafkapy.security.acls.model import REFUSAL_TEXTS

FIRST_VERSION_FOR_BROKERS: Final = 4
"""The first version of AddPartitionsToTxn that only brokers send."""
FIRST_VERSION_WITH_NULL_PROTOCOL: Final = 7
"""The first version of JoinGroup whose answer may have no protocol."""


def answer(context: RequestContext, request: Any, error: ErrorCode) -> Steps[Any]:
    """The answer to a request without the right."""
    make = _PARTWISE.get(context.api_key)
    if make is not None:
        made = yield from make(request, error, context.api_version)
        return made
    return _whole(context.api_key, context.api_version, error)


def _whole(api_key: int, version: int, error: ErrorCode) -> Any:
    """An answer with one error for the whole request."""
    response: Any = response_class(api_key)()
    names = _fields(api_key, version)
    if "error_code" in names:  # DescribeLogDirs v0-2 has none: it shows no directories
        response.error_code = error
    if "error_message" in names:
        response.error_message = REFUSAL_TEXTS[error]
    if api_key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
        response.entries = None
    if api_key == ApiKey.JOIN_GROUP and version >= FIRST_VERSION_WITH_NULL_PROTOCOL:
        response.protocol_name = None
    return response


@cache
def _fields(api_key: int, version: int) -> frozenset[str]:
    fields = schema_of(response_class(api_key)).root.fields
    return frozenset(field.name for field in fields if version in field.versions)


def _commits(response: Any, topic: Any, partition: Any) -> Callable[[Any, ErrorCode, int], Steps[Any]]:
    """For OffsetCommit and TxnOffsetCommit."""

    def make(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
        topics = yield from answer_partitions(
            request.topics,
            lambda asked: asked.partitions,
            lambda _, asked: partition(partition_index=asked.partition_index, error_code=error),
            lambda asked, answers: topic(name=asked.name, topic_id=asked.topic_id, partitions=answers),
        )
        return response(topics=topics)

    return make


def _create_acls(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
    results = yield from answer_each(
        request.creations,
        lambda _: create_acls.AclCreationResult(error_code=error, error_message=REFUSAL_TEXTS[error]),
    )
    return create_acls.CreateAclsResponse(results=results)


def _delete_acls(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
    results = yield from answer_each(
        request.filters,
        lambda _: delete_acls.DeleteAclsFilterResult(error_code=error, error_message=REFUSAL_TEXTS[error]),
    )
    return delete_acls.DeleteAclsResponse(filter_results=results)


def _alter_replica_log_dirs(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
    results = yield from answer_partitions(
        (topic for each in request.dirs for topic in each.topics),
        lambda topic: topic.partitions,
        lambda _, index: alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(
            partition_index=index, error_code=error
        ),
        lambda topic, answers: alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
            topic_name=topic.name, partitions=answers
        ),
    )
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(results=results)


def _add_partitions_to_txn(request: Any, error: ErrorCode, version: int) -> Steps[Any]:
    if version >= FIRST_VERSION_FOR_BROKERS:
        return add_partitions_to_txn.AddPartitionsToTxnResponse(error_code=error)
    topics = yield from answer_partitions(
        request.v3_and_below_topics,
        lambda topic: topic.partitions,
        lambda _, index: add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
            partition_index=index, partition_error_code=error
        ),
        lambda topic, answers: add_partitions_to_txn.AddPartitionsToTxnTopicResult(
            name=topic.name, results_by_partition=answers
        ),
    )
    return add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _write_txn_markers(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
    markers = []
    for marker in request.markers:
        topics = yield from answer_partitions(
            marker.topics,
            lambda topic: topic.partition_indexes,
            lambda _, index: write_txn_markers.WritableTxnMarkerPartitionResult(
                partition_index=index, error_code=error
            ),
            lambda topic, answers: write_txn_markers.WritableTxnMarkerTopicResult(
                name=topic.name, partitions=answers
            ),
        )
        markers.append(
            write_txn_markers.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
        )
    return write_txn_markers.WriteTxnMarkersResponse(markers=markers)


def _alter_client_quotas(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
    entries = yield from answer_each(
        request.entries,
        lambda entry: alter_client_quotas.AlterClientQuotasResponseEntryData(
            error_code=error, error_message=REFUSAL_TEXTS[error], entity=entry.entity
        ),
    )
    return alter_client_quotas.AlterClientQuotasResponse(entries=entries)


def _alter_user_scram_credentials(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
    users: dict[str, None] = {}
    yield from visit_each(
        chain(request.deletions, request.upsertions), lambda asked: users.setdefault(asked.name)
    )
    results = yield from answer_each(
        users,
        lambda user: alter_user_scram_credentials.AlterUserScramCredentialsResult(
            user=user, error_code=error, error_message=REFUSAL_TEXTS[error]
        ),
    )
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(results=results)


def _elect_leaders(request: Any, error: ErrorCode, version: int) -> Steps[Any]:
    results = yield from answer_partitions(
        request.topic_partitions or (),
        lambda topic: topic.partitions,
        lambda _, index: elect_leaders.PartitionResult(
            partition_id=index, error_code=error, error_message=REFUSAL_TEXTS[error]
        ),
        lambda topic, answers: elect_leaders.ReplicaElectionResult(
            topic=topic.topic, partition_result=answers
        ),
    )
    response = elect_leaders.ElectLeadersResponse(replica_election_results=results)
    if version:
        response.error_code = error
    return response


def _alter_partition_reassignments(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
    responses = yield from answer_partitions(
        request.topics,
        lambda topic: topic.partitions,
        lambda _, asked: alter_partition_reassignments.ReassignablePartitionResponse(
            partition_index=asked.partition_index, error_code=error, error_message=REFUSAL_TEXTS[error]
        ),
        lambda topic, answers: alter_partition_reassignments.ReassignableTopicResponse(
            name=topic.name, partitions=answers
        ),
    )
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        error_code=error, error_message=REFUSAL_TEXTS[error], responses=responses
    )


def _share_states(response: Any, topic: Any, partition: Any) -> Callable[[Any, ErrorCode, int], Steps[Any]]:
    """For the requests to share coordinators."""

    def make(request: Any, error: ErrorCode, _version: int) -> Steps[Any]:
        results = yield from answer_partitions(
            request.topics,
            lambda asked: asked.partitions,
            lambda _, asked: partition(
                partition=asked.partition, error_code=error, error_message=REFUSAL_TEXTS[error]
            ),
            lambda asked, answers: topic(topic_id=asked.topic_id, partitions=answers),
        )
        return response(results=results)

    return make


_PARTWISE: Final[dict[int, Callable[[Any, ErrorCode, int], Steps[Any]]]] = {
    ApiKey.OFFSET_COMMIT: _commits(
        offset_commit.OffsetCommitResponse,
        offset_commit.OffsetCommitResponseTopic,
        offset_commit.OffsetCommitResponsePartition,
    ),
    ApiKey.TXN_OFFSET_COMMIT: _commits(
        txn_offset_commit.TxnOffsetCommitResponse,
        txn_offset_commit.TxnOffsetCommitResponseTopic,
        txn_offset_commit.TxnOffsetCommitResponsePartition,
    ),
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _share_states(
        initialize_share_group_state.InitializeShareGroupStateResponse,
        initialize_share_group_state.InitializeStateResult,
        initialize_share_group_state.PartitionResult,
    ),
    ApiKey.READ_SHARE_GROUP_STATE: _share_states(
        read_share_group_state.ReadShareGroupStateResponse,
        read_share_group_state.ReadStateResult,
        read_share_group_state.PartitionResult,
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: _share_states(
        write_share_group_state.WriteShareGroupStateResponse,
        write_share_group_state.WriteStateResult,
        write_share_group_state.PartitionResult,
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: _share_states(
        delete_share_group_state.DeleteShareGroupStateResponse,
        delete_share_group_state.DeleteStateResult,
        delete_share_group_state.PartitionResult,
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _share_states(
        read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
        read_share_group_state_summary.ReadStateSummaryResult,
        read_share_group_state_summary.PartitionResult,
    ),
}
