"""The check of `RawClient` on errors that a client of a version does not know."""

from __future__ import annotations

from kafkapy.handlers import APIS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.network.known_errors import KNOWN, NOT_BEFORE, unknown_errors


def refused(error: ErrorCode) -> TxnOffsetCommitResponse:
    partition = TxnOffsetCommitResponsePartition(partition_index=0, error_code=error)
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=[partition])])


def test_an_error_of_another_request_is_noticed_deep_in_an_answer() -> None:
    stale = refused(ErrorCode.STALE_MEMBER_EPOCH)
    assert unknown_errors("TxnOffsetCommit", 5, stale) == ["TxnOffsetCommit v5: STALE_MEMBER_EPOCH"]
    assert unknown_errors("TxnOffsetCommit", 5, refused(ErrorCode.ILLEGAL_GENERATION)) == []


def test_an_error_of_a_later_version_is_noticed() -> None:
    loading = refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert unknown_errors("TxnOffsetCommit", 1, loading) == [
        "TxnOffsetCommit v1: COORDINATOR_LOAD_IN_PROGRESS"
    ]
    assert unknown_errors("TxnOffsetCommit", 2, loading) == []


def test_the_table_names_apis_that_exist() -> None:
    names = {api.key.name.replace("_", "").lower() for api in APIS}
    listed = {name.lower() for name in KNOWN} | {name.lower() for name, _ in NOT_BEFORE}
    assert listed <= names
    assert not KNOWN.keys() & {name for name, _ in NOT_BEFORE}, "an answer's errors are listed once"
