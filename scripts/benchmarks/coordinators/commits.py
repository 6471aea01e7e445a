"""Commits of offsets, as consumers send them."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.wire import ask, decoded, encoded, receive

_GROUPS = 50
_ROUNDS = 600
_VERSION = 9
_COORDINATOR_VERSION = 4
_PATIENCE = 60.0


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
        with contextlib.ExitStack() as stack:
            connections = [
                stack.enter_context(socket.create_connection(target.server.address, timeout=60))
                for _ in groups
            ]
            for connection, group, request in zip(connections, groups, requests, strict=True):
                wait_for_coordinator(connection, group)
                commit(connection, request)
            watch = target.stopwatch()
            for _ in range(rounds):
                _commit_all(connections, requests)
            cost = watch.cost()
        count = rounds * _GROUPS
        return {
            "requests/s": count / cost.seconds,
            "requests per CPU second": count / cost.cpu_seconds,
            "CPU µs/request": cost.cpu_seconds / count * 1e6,
        }

    return run


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
    return encoded(request, _VERSION)


def wait_for_coordinator(connection: socket.socket, group: str) -> None:
    """Wait until the group has a coordinator.

    This creates the offsets topic if it does not exist.
    """
    asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    request = encoded(asked, _COORDINATOR_VERSION)
    deadline = time.monotonic() + _PATIENCE
    while True:
        (found,) = decoded(ask(connection, request), asked.KEY, _COORDINATOR_VERSION).coordinators
        if found.error_code == ErrorCode.NONE:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"no coordinator: {ErrorCode(found.error_code).name}")
        time.sleep(0.05)


def commit(connection: socket.socket, request: bytes) -> None:
    """Commit, again while the coordinator is being loaded."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        errors = _errors(ask(connection, request))
        if not errors:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"a commit was refused: {errors}")
        time.sleep(0.05)


def _commit_all(connections: Sequence[socket.socket], requests: Sequence[bytes]) -> None:
    for connection, request in zip(connections, requests, strict=True):
        connection.sendall(request)
    for connection in connections:
        errors = _errors(receive(connection))
        if errors:
            raise RuntimeError(f"a commit was refused: {errors}")


def _errors(frame: bytes) -> set[str]:
    return {
        ErrorCode(partition.error_code).name
        for topic in decoded(frame, OffsetCommitRequest.KEY, _VERSION).topics
        for partition in topic.partitions
        if partition.error_code
    }
