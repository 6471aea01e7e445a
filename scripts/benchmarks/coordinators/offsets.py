"""Committed offsets, as consumers send and fetch them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from interop.support.waiting import wait_until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.wire import ask, decoded, encoded, exchange, receive

_GROUPS = 50
_ROUNDS = 600
_FIND_VERSION = 4
_COMMIT_VERSION = 9
_REQUEST_SECONDS = 10.0
"""When a client gives a request up."""

Address = tuple[str, int]


def committing(partitions: int) -> Callable[[Target, float], Figures]:
    """Load: fifty groups, each on a connection with one request on its way.

    The requests are encoded beforehand, so that the client costs next to nothing. Their consumers assign
    partitions to themselves.
    """

    def run(target: Target, scale: float) -> Figures:
        topic = target.new_topic(partitions)
        groups = [f"{topic} {number}" for number in range(_GROUPS)]
        requests = [commit_request(group, topic, range(partitions)) for group in groups]
        rounds = max(int(_ROUNDS * scale), 1)
        with ExitStack() as stack:
            connections = [stack.enter_context(target.connect()) for _ in groups]
            for connection, group, request in zip(connections, groups, requests, strict=True):
                wait_for_coordinator(target, group)
                commit(connection, request)
            watch = target.stopwatch()
            for _ in range(rounds):
                _commit_all(connections, requests)
            cost = watch.cost()
        count = rounds * _GROUPS
        return {
            "requests/s": count / cost.seconds,
            "CPU µs/request": cost.cpu_seconds / count * 1e6,
        }

    return run


def find_coordinator(brokers: Sequence[Address], group: str) -> Address | None:
    """The coordinator of a group, as the first broker to answer says; None if it cannot say."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    for broker in brokers:
        try:
            with socket.create_connection(broker, _REQUEST_SECONDS) as connection:
                (found,) = exchange(connection, request, _FIND_VERSION).coordinators
        except (OSError, RuntimeError):  # refused, lost or closed
            continue
        return None if found.error_code else (found.host, found.port)
    return None


def wait_for_coordinator(target: Target, group: str) -> None:
    """Wait until the group has a coordinator.

    This creates the offsets topic if it does not exist.
    """
    wait_until(lambda: find_coordinator([target.server.address], group), timeout=60)


def commit(connection: socket.socket, request: bytes) -> None:
    """Commit, again while the coordinator is being loaded."""
    wait_until(lambda: not commit_errors(ask(connection, request)), timeout=60)


def commit_request(group: str, topic: str, partitions: Sequence[int]) -> bytes:
    """A commit of a consumer that is in no group's membership."""
    committed = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1000 + index)
        for index in partitions
    ]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=committed)],
    )
    return encoded(request, _COMMIT_VERSION)


def commit_errors(frame: bytes) -> set[ErrorCode]:
    """Those of an OffsetCommit."""
    topics = decoded(frame, OffsetCommitRequest, _COMMIT_VERSION).topics
    return errors_of(partition for topic in topics for partition in topic.partitions)


def errors_of(answers: Iterable[Any]) -> set[ErrorCode]:
    return {ErrorCode(each.error_code) for each in answers if each.error_code}


def _commit_all(connections: Sequence[socket.socket], requests: Sequence[bytes]) -> None:
    for connection, request in zip(connections, requests, strict=True):
        connection.sendall(request)
    for connection in connections:
        if errors := commit_errors(receive(connection)):
            raise RuntimeError(f"a commit was refused: {errors}")
