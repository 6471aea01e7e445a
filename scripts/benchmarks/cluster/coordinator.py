"""How long a group is without its coordinator.

Committed offsets are not answered then, and commits not acknowledged.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

from interop.support.waiting import wait_until
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.offset_commit import OffsetCommitRequest
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from scripts.benchmarks.cluster.pauses import longest_gap
from scripts.benchmarks.cluster.target import ClusterTarget
from scripts.benchmarks.coordinators.commits import commit_request
from scripts.benchmarks.load import Figures
from scripts.benchmarks.wire import ask, decoded, encoded
from tests.servers.server_process import ServerProcess

_TOPIC: Final = "committed"
_PARTITIONS: Final = 50
_GROUPS: Final = 1000
"""Of which a new coordinator has to load a third."""
_INTERVAL_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 0.005
_REQUEST_SECONDS: Final = 10.0
"""When a client gives a request up. A broker answers commits after five seconds at most."""
_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 8
_FIND_VERSION: Final = 4

_Address = tuple[str, int]


class SteadyRequest:
    """Sends a request to the coordinator of a group every 20 ms.

    It notes when each is answered.

    After an error that may be retried, and after a lost connection, it looks the coordinator up and asks
    again, 5 ms later. `check` returns the errors of an answer.
    """

    def __init__(
        self,
        brokers: Sequence[_Address],
        group: str,
        request: bytes,
        check: Callable[[bytes], set[ErrorCode]],
    ) -> None:
        self._brokers, self._group, self._request, self._check = brokers, group, request, check
        self._connection: socket.socket | None = None
        self._problem: Exception | None = None
        self._times: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._stop.is_set():
            try:
                answered = self._ask()
            except Exception as problem:
                self._problem = problem
                return
            if answered:
                self._times.append(time.perf_counter())
                due = max(due + _INTERVAL_SECONDS, time.perf_counter())
                self._stop.wait(due - time.perf_counter())
            else:
                self._hang_up()
                self._stop.wait(_RETRY_SECONDS)

    def _ask(self) -> bool:
        """Whether the coordinator has answered without an error."""
        try:
            if self._connection is None:
                (address,) = find_coordinators(self._brokers, self._group)
                if address is None:
                    return False
                self._connection = socket.create_connection(address, _REQUEST_SECONDS)
            errors = self._check(ask(self._connection, self._request))
        except (OSError, RuntimeError):  # the connection is refused, lost or closed
            return False
        if fatal := [error for error in errors if not error.retriable]:
            raise RuntimeError(f"{self._group}: {fatal[0].name}")
        return not errors

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def wait_for_more(self, answers: int) -> None:
        """Wait for so many more answers; raises what ended the requests."""
        wanted = len(self._times) + answers
        wait_until(lambda: len(self._times) >= wanted or self._problem, timeout=120)
        if self._problem:
            raise self._problem

    def longest_gap(self, since: float) -> float:
        return longest_gap(self._times, since).seconds

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._hang_up()


def find_coordinators(brokers: Sequence[_Address], *groups: str) -> list[_Address | None]:
    """The coordinators of groups, as the first broker to answer says.

    None where it cannot say.
    """
    asked = FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups))
    for broker in brokers:
        try:
            with socket.create_connection(broker, _REQUEST_SECONDS) as connection:
                answer = ask(connection, encoded(asked, _FIND_VERSION))
        except (OSError, RuntimeError):
            continue
        found = {each.key: each for each in decoded(answer, asked.KEY, _FIND_VERSION).coordinators}
        return [
            None if found[group].error_code else (found[group].host, found[group].port) for group in groups
        ]
    return [None] * len(groups)


def fetch_request(group: str) -> bytes:
    """Asks for the one committed offset that the load watches."""
    topic = OffsetFetchRequestTopics(name=_TOPIC, partition_indexes=[0])
    asked = OffsetFetchRequestGroup(group_id=group, topics=[topic])
    return encoded(OffsetFetchRequest(groups=[asked]), _FETCH_VERSION)


def fetch_errors(frame: bytes) -> set[ErrorCode]:
    """Those of an OffsetFetch; raises LookupError if a committed offset is lost."""
    (group,) = decoded(frame, OffsetFetchRequest.KEY, _FETCH_VERSION).groups
    partitions = [partition for topic in group.topics for partition in topic.partitions]
    errors = _errors([group, *partitions])
    if not errors and any(partition.committed_offset < 0 for partition in partitions):
        raise LookupError(f"the offset that {group.group_id} has committed is lost")
    return errors


def commit_errors(frame: bytes) -> set[ErrorCode]:
    """Those of an OffsetCommit."""
    topics = decoded(frame, OffsetCommitRequest.KEY, _COMMIT_VERSION).topics
    return _errors(partition for topic in topics for partition in topic.partitions)


def _errors(answers: Any) -> set[ErrorCode]:
    return {ErrorCode(each.error_code) for each in answers} - {ErrorCode.NONE}


def coordinator(target: ClusterTarget, scale: float) -> Figures:
    """Load: kill and stop a coordinator of groups.

    First one that is not the controller, then one that is.
    """
    groups = _prepare(target, max(int(_GROUPS * scale), 30))
    faults: dict[str, tuple[Callable[[], int], Callable[[ServerProcess], object]]] = {
        "SIGTERM of the coordinator": (target.another, ServerProcess.stop),
        "SIGTERM, also the controller": (target.controller, ServerProcess.stop),
        "SIGKILL of the coordinator": (target.another, ServerProcess.kill),
        "SIGKILL, also the controller": (target.controller, ServerProcess.kill),
    }
    figures: Figures = {}
    with ExitStack() as stack:
        steady = {number: stack.enter_context(_asking(target, group)) for number, group in groups.items()}
        since = time.perf_counter()
        for requests in steady.values():
            for request in requests.values():
                request.wait_for_more(50)
        for what in ("OffsetFetch", "OffsetCommit"):
            gaps = [requests[what].longest_gap(since) for requests in steady.values()]
            figures[f"undisturbed: {what}, s"] = max(gaps)
        for label, (choose, fault) in faults.items():
            victim = choose()
            requests = steady[victim]
            since = time.perf_counter()
            fault(target.broker(victim))
            for what, request in requests.items():
                request.wait_for_more(50)
                figures[f"{label}: {what}, s"] = request.longest_gap(since)
            target.restore(victim)
            for request in requests.values():  # which the restored broker coordinates again
                request.wait_for_more(50)
    return figures


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

        def committed(group: str) -> _Address | None:
            """Where the offsets are committed, once there is a coordinator that has loaded the group."""
            (address,) = find_coordinators(addresses, group)
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


@contextmanager
def _asking(target: ClusterTarget, group: str) -> Iterator[dict[str, SteadyRequest]]:
    """Fetch and commit an offset of the group all the time."""
    brokers = [server.address for server in target.servers]
    with ExitStack() as stack:
        asked = {
            "OffsetFetch": SteadyRequest(brokers, group, fetch_request(group), fetch_errors),
            "OffsetCommit": SteadyRequest(brokers, group, commit_request(group, _TOPIC, [0]), commit_errors),
        }
        for request in asked.values():
            stack.callback(request.close)
        yield asked
