"""How long a group is without its coordinator.

Committed offsets are not answered then, and commits not acknowledged.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from interop.support.waiting import wait_until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from scripts.benchmarks.cluster.steady import INTERVAL_SECONDS, SteadyClient, faults
from scripts.benchmarks.cluster.target import ClusterTarget
from scripts.benchmarks.coordinators.offsets import (
    Address,
    commit_errors,
    commit_request,
    errors_of,
    find_coordinator,
)
from scripts.benchmarks.load import Figures
from scripts.benchmarks.wire import ask, decoded, encoded

_TOPIC: Final = "committed"
_PARTITIONS: Final = 50
_GROUPS: Final = 1000
"""Of which a new coordinator has to load a third."""
_RETRY_SECONDS: Final = 0.005
_REQUEST_SECONDS: Final = 10.0
"""When a client gives a request up. A broker answers commits after five seconds at most."""
_FETCH_VERSION: Final = 8


class SteadyRequest(SteadyClient):
    """Sends a request to the coordinator of a group every 20 ms.

    After an error that may be retried, and after a lost connection, it looks the coordinator up and asks
    again, 5 ms later. `check` returns the errors of an answer.
    """

    def __init__(
        self,
        brokers: Sequence[Address],
        group: str,
        request: bytes,
        check: Callable[[bytes], set[ErrorCode]],
    ) -> None:
        super().__init__(series=1)
        self._brokers, self._group, self._request, self._check = brokers, group, request, check
        self._connection: socket.socket | None = None
        self._due = time.perf_counter()

    def ask(self) -> None:
        if self._is_answered():
            now = time.perf_counter()
            self.answers[0].append(now)
            self._due = max(self._due + INTERVAL_SECONDS, now)
            self.stopped.wait(self._due - now)
        else:
            self.close()
            self.stopped.wait(_RETRY_SECONDS)

    def _is_answered(self) -> bool:
        """Whether the coordinator has answered without an error."""
        try:
            if self._connection is None:
                address = find_coordinator(self._brokers, self._group)
                if address is None:
                    return False
                self._connection = socket.create_connection(address, _REQUEST_SECONDS)
            errors = self._check(ask(self._connection, self._request))
        except (OSError, RuntimeError):  # the connection is refused, lost or closed
            return False
        if fatal := [error for error in errors if not error.retriable]:
            raise RuntimeError(f"{self._group}: {fatal[0].name}")
        return not errors

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def fetch_request(group: str) -> bytes:
    """Asks for the one committed offset that the load watches."""
    topic = OffsetFetchRequestTopics(name=_TOPIC, partition_indexes=[0])
    asked = OffsetFetchRequestGroup(group_id=group, topics=[topic])
    return encoded(OffsetFetchRequest(groups=[asked]), _FETCH_VERSION)


def fetch_errors(frame: bytes) -> set[ErrorCode]:
    """Those of an OffsetFetch; raises LookupError if a committed offset is lost."""
    (group,) = decoded(frame, OffsetFetchRequest, _FETCH_VERSION).groups
    partitions = [partition for topic in group.topics for partition in topic.partitions]
    errors = errors_of([group, *partitions])
    if not errors and any(partition.committed_offset < 0 for partition in partitions):
        raise LookupError(f"the offset that {group.group_id} has committed is lost")
    return errors


def coordinator(target: ClusterTarget, scale: float) -> Figures:
    """Load: kill and stop a coordinator while a group's offset is committed and fetched."""
    brokers = [server.address for server in target.servers]
    figures: Figures = {}
    with ExitStack() as stack:
        steady = {
            broker: [
                stack.enter_context(SteadyRequest(brokers, group, request, check))
                for request, check in (
                    (fetch_request(group), fetch_errors),
                    (commit_request(group, _TOPIC, [0]), commit_errors),
                )
            ]
            for broker, group in _prepare(target, max(int(_GROUPS * scale), 30)).items()
        }
        since = time.perf_counter()
        figures["undisturbed, s"] = max(_longest_gap(requests, since) for requests in steady.values())
        for label, victim, fault in faults(target, "a coordinator"):
            _longest_gap(steady[victim], since)  # the broker coordinates its groups again
            since = time.perf_counter()
            fault(target.broker(victim))
            figures[f"{label}, s"] = _longest_gap(steady[victim], since)
    return figures


def _longest_gap(requests: Sequence[SteadyRequest], since: float) -> float:
    """The longest time without an answer, after some more answers."""
    for request in requests:
        request.wait_for_more(50)
    return max(request.longest_gap([0], since).seconds for request in requests)


def _prepare(target: ClusterTarget, count: int) -> dict[int, str]:
    """Commit offsets of so many groups.

    Returns a group that each broker coordinates, by the broker's id.
    """
    if _TOPIC not in target.admin.list_topics(timeout=30).topics:
        target.new_spread_topic(_TOPIC, _PARTITIONS)
    addresses = [server.address for server in target.servers]
    coordinated: dict[int, str] = {}
    with ExitStack() as stack:
        connections = {
            address: stack.enter_context(socket.create_connection(address, timeout=60))
            for address in addresses
        }

        def committed(group: str) -> Address | None:
            """Where the offsets are committed, once there is a coordinator that has loaded the group."""
            address = find_coordinator(addresses, group)
            if address is None:
                return None
            request = commit_request(group, _TOPIC, range(_PARTITIONS))
            return None if commit_errors(ask(connections[address], request)) else address

        for group in (f"group {number}" for number in range(count)):
            address = wait_until(partial(committed, group), timeout=60)
            assert address is not None
            coordinated[addresses.index(address) + 1] = group
    target.wait_until_in_sync()
    return coordinated
