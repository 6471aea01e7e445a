"""Counts requests and their errors, and measures their times, where that is wanted.

Metrics want it, and the logs of slow requests and of all requests.

    read_at      the connection had received the request
    arrived_at   it was handled; before, it waited for a turn
    started_at   its handler was called, if it was decoded in a thread before
    handled_at   the handler had returned: it has answered, or waits for a disk, a broker or a client
    ready_at     the answer was there; after that it waited for the answers to earlier requests
    sending_at   it was encoded and sent, as far as the socket took it

The header has all but the last. The phases in between have Apache Kafka's names: the request queue, local,
remote, the response queue, response send. Every request is counted, and the times of a sample are kept
(loop/latency_sample.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkapy.loop.latency_sample import LatencySample
from kafkapy.network.client_software import ClientSoftware
from kafkapy.network.client_traffic import TrafficOfClients
from kafkapy.network.error_finder import error_finder
from kafkapy.network.slow_requests import SlowRequests
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.types import ApiKey

if TYPE_CHECKING:
    from kafkapy.network.request_log import RequestLog
    from kafkapy.network.requester import Sender

FOLLOWER: Final = 0x8000
"""Is added to the key of Fetch for the requests of followers, whose times differ."""

_FETCH: Final = int(ApiKey.FETCH)

FETCH_OF_CONSUMERS: Final = "FetchConsumer"
FETCH_OF_FOLLOWERS: Final = "FetchFollower"


class Durations(NamedTuple):
    """The seconds that a request spent in each phase."""

    request_queue: float
    local: float
    remote: float
    response_queue: float
    response_send: float
    total: float


class ApiMetrics:
    """The numbers of one API."""

    __slots__ = ("errors", "failed", "requests", "sample", "versions")

    def __init__(self, now: float) -> None:
        self.requests = 0
        self.versions: dict[int, int] = {}
        """The requests by version."""
        self.failed = 0
        """The requests whose answers have an error."""
        self.errors: dict[int, int] = {}
        """The errors in answers by code. An answer may have one for each partition."""
        self.sample: LatencySample[Durations] = LatencySample(now)

    def errors_by_name(self) -> dict[str, int]:
        """The errors by Kafka's names, with NONE for the requests without any."""
        named = {ErrorCode(code).name: count for code, count in tuple(self.errors.items())}
        return {"NONE": self.requests - self.failed, **named}


class RequestMetrics:
    """The numbers of all requests of a broker; they belong to the event loop."""

    def __init__(self) -> None:
        self._apis: dict[int, ApiMetrics] = {}
        self.clients = TrafficOfClients()
        self.software = ClientSoftware()
        self.slow: SlowRequests | None = None
        """Logs slow requests, if that is set."""
        self.log: RequestLog | None = None
        """Logs all requests, while its logger has the level."""

    def handled(self, header: RequestHeader, request: Any) -> None:
        """Note that the handler of a request has returned."""
        header.handled_at = time.monotonic()
        if header.api_key == _FETCH:
            header.is_of_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
        if self.log is not None:
            self.log.handled(header, request)

    def ended(self, connection: Sender, header: RequestHeader, response: Any, sending_at: float) -> None:
        """Count a request whose answer is sent, or that has none.

        `response` is None if there is none, and a list if it is encoded: then the header has its errors.
        """
        key = header.api_key | FOLLOWER if header.is_of_follower else header.api_key
        api = self._apis.get(key)
        if api is None:
            api = self._apis[key] = ApiMetrics(sending_at)
        api.requests += 1
        version = header.api_version
        api.versions[version] = api.versions.get(version, 0) + 1
        if type(response) is list:
            if header.errors:
                api.failed += 1
                for code, count in header.errors.items():
                    api.errors[code] = api.errors.get(code, 0) + count
        elif response is not None and (found := error_finder(type(response))(response)):
            api.failed += 1
            for code in found:
                api.errors[code] = api.errors.get(code, 0) + 1
        sample, slow, log = api.sample, self.slow, self.log
        is_sampled = not sample.skip
        if not is_sampled:
            sample.skip -= 1
        is_slow = slow is not None and sending_at - header.read_at >= slow.seconds
        if not (is_sampled or is_slow or log is not None):
            return
        now = time.monotonic()
        durations = _durations(header, sending_at, now)
        if is_sampled:
            sample.take(durations, now)
        if slow is not None and is_slow:
            slow.ended(connection, header, durations, now)
        if log is not None:
            log.ended(connection, header, response, durations)

    def apis(self) -> Iterator[tuple[str, ApiMetrics]]:
        """The numbers of each API that was used, by the name that Kafka's metrics give it."""
        for key, api in tuple(self._apis.items()):
            yield _name(key), api


def _durations(header: RequestHeader, sending_at: float, now: float) -> Durations:
    # A request that was refused has no handler, and one that was answered at once was not waited for.
    started = header.started_at or header.arrived_at
    handled = header.handled_at or sending_at
    ready = header.ready_at or handled
    return Durations(
        started - header.read_at,
        handled - started,
        ready - handled,
        sending_at - ready,
        now - sending_at,
        now - header.read_at,
    )


def _name(key: int) -> str:
    """Kafka's name of an API: AddPartitionsToTxn for ADD_PARTITIONS_TO_TXN."""
    if key & FOLLOWER:
        return FETCH_OF_FOLLOWERS
    if key == ApiKey.FETCH:
        return FETCH_OF_CONSUMERS
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
