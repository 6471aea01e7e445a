"""The faults of a broker: of requests by their API, of connections, and of disks."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Generic, TypeVar, Unpack

from kafkapy.faults.clients import Clients
from kafkapy.faults.connections import FaultyConnections
from kafkapy.faults.disks import FaultyDisks, Place
from kafkapy.faults.fault import AsyncFault, Fault, HowOften, often
from kafkapy.faults.filter import Filter, names_partitions, names_topics
from kafkapy.faults.kinds import (
    NAMED_BY_ANSWERS,
    Delay,
    Disconnect,
    Error,
    Kind,
    NoAnswer,
    SlowBytes,
    TornAnswer,
    Twice,
    positive,
)
from kafkapy.faults.request_fault import RequestFault, Requests
from kafkapy.faults.switched_on import SwitchedOn
from kafkapy.handlers import IN_CLUSTER
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.types import ApiKey

F = TypeVar("F")

_APIS: Final = {api.key.name.lower(): api.key for api in IN_CLUSTER}

_WITHOUT_ERRORS: Final = frozenset({ApiKey.ALTER_REPLICA_LOG_DIRS})
"""The APIs whose answers are arranged unlike their requests, and have errors for parts only."""

WITHOUT_PARTS: Final = frozenset(
    {*_WITHOUT_ERRORS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA}
)
"""The APIs whose answers are arranged unlike their requests, so that no error has its place by a topic."""


class Faults(Generic[F]):
    """The faults of a broker: `faults.produce(topic="orders").delay(1)`.

    Each API that the broker serves is a method, by its name in Kafka's protocol, which takes `topic`,
    `partition`, `client_id`, `address` and `listener`, and returns `FaultyRequests`. `connections` are
    faults of connections as a whole, `disk` those of log directories.
    """

    def __init__(self, switched_on: SwitchedOn, shown: Callable[[Fault], F]) -> None:
        """`shown` makes of a fault what tests get."""
        self._switched_on = switched_on
        self._shown = shown

    def __getattr__(self, api: str) -> Callable[..., FaultyRequests[F]]:
        key = _APIS.get(api)
        if key is None:
            raise AttributeError(f"no API of the broker is called {api}{near(api, _APIS)}")

        def requests(
            *,
            topic: str | None = None,
            partition: int | None = None,
            client_id: str | None = None,
            address: str | None = None,
            listener: str | None = None,
        ) -> FaultyRequests[F]:
            clients = Clients.of(client_id, address, listener)
            concerned = Requests(key, Filter(topic, partition), clients)
            return FaultyRequests(self._switched_on, self._shown, concerned)

        return requests

    def connections(
        self, *, client_id: str | None = None, address: str | None = None, listener: str | None = None
    ) -> FaultyConnections[F]:
        """Connections as a whole.

        Args:
            client_id: what their requests say.
            address: the host that they come from.
            listener: the name of the one that they come to.
        """
        return FaultyConnections(self._switched_on, self._shown, Clients.of(client_id, address, listener))

    def disk(
        self, *, topic: str | None = None, partition: int | None = None, log_dir: str | Path | None = None
    ) -> FaultyDisks[F]:
        """The disks of the log directories, by topic, partition and directory.

        Raises:
            ValueError: a partition without a topic.
        """
        if partition is not None and topic is None:
            raise ValueError(f"partition={partition}: of which topic?")
        place = Place(topic, partition, None if log_dir is None else str(log_dir))
        return FaultyDisks(self._switched_on, self._shown, place)

    @property
    def names(self) -> list[str]:
        """What there are faults of: the names of all APIs, `connections` and `disk`."""
        return [*_APIS, "connections", "disk"]

    def __iter__(self) -> Iterator[F]:
        return map(self._shown, self._switched_on.faults)

    def __len__(self) -> int:
        return len(self._switched_on.faults)

    def stop(self) -> None:
        """Switch all of them off."""
        self._switched_on.remove(self._switched_on.faults)

    def __repr__(self) -> str:
        return f"<faults: {', '.join(map(repr, self)) or 'none'}>"


class FaultyRequests(Generic[F]):
    """The requests that a fault concerns, and what it may do to them.

    Each method switches a fault on and returns it. It meets every request, unless it is told to meet so many
    `times` at most, only every n-th, or each with a `probability` that a `seed` makes repeatable.
    """

    def __init__(self, switched_on: SwitchedOn, shown: Callable[[Fault], F], requests: Requests) -> None:
        self._switched_on = switched_on
        self._shown = shown
        self._requests = requests

    def error(self, code: str, **how_often: Unpack[HowOften]) -> F:
        """Answer with an error of Kafka's, by its name, and without an effect.

        Only what is concerned gets it: other topics and partitions of the request are served. By topic, all
        of Fetch, ShareFetch, Metadata, OffsetFetch and DescribeTopicPartitions is served, and what the answer
        names gets the error.

        Raises:
            ValueError: there is no such error, or the API has none for a topic or a partition.
        """
        names = [name for name in ErrorCode.__members__ if name != ErrorCode.NONE.name]
        if code not in names:
            raise ValueError(f"no error of Kafka is called {code}{near(code, names)}")
        api, concerned, _ = self._requests
        if api not in NAMED_BY_ANSWERS:
            _check_named(api, concerned)
        _check_answered(api, concerned)
        return self._switch_on(Error(ErrorCode[code]), **how_often)

    def delay(self, seconds: float, **how_often: Unpack[HowOften]) -> F:
        """Let the request wait before it is served, and the connection's next ones with it."""
        return self._switch_on_for_requests(Delay(positive("seconds", seconds)), **how_often)

    def twice(self, seconds: float, **how_often: Unpack[HowOften]) -> F:
        """Serve the request, and once more so many seconds later, without an answer."""
        return self._switch_on_for_requests(Twice(positive("seconds", seconds)), **how_often)

    def disconnect(self, *, after_effect: bool = False, **how_often: Unpack[HowOften]) -> F:
        """Close the connection before the request is served, or instead of its answer."""
        return self._switch_on_for_requests(Disconnect(after_effect), **how_often)

    def no_answer(self, **how_often: Unpack[HowOften]) -> F:
        """Serve the request, and answer neither it nor a later one of its connection."""
        return self._switch_on_for_requests(NoAnswer(), **how_often)

    def torn_answer(self, **how_often: Unpack[HowOften]) -> F:
        """Serve the request, send half of the answer, and close the connection."""
        return self._switch_on_for_requests(TornAnswer(), **how_often)

    def slow_bytes(self, per_second: int, **how_often: Unpack[HowOften]) -> F:
        """Serve the request, and send the answer at so many bytes a second."""
        return self._switch_on_for_requests(SlowBytes(positive("per_second", per_second)), **how_often)

    def _switch_on_for_requests(self, kind: Kind, **how_often: Unpack[HowOften]) -> F:
        _check_named(self._requests.api, self._requests.concerned)
        return self._switch_on(kind, **how_often)

    def _switch_on(self, kind: Kind, **how_often: Unpack[HowOften]) -> F:
        fault = RequestFault(self._requests, kind)
        self._switched_on.add(fault, often(**how_often))
        return self._shown(fault)


def blocking(switched_on: SwitchedOn) -> Faults[Fault]:
    """The faults of a `Broker`."""
    return Faults(switched_on, lambda fault: fault)


def awaitable(switched_on: SwitchedOn) -> Faults[AsyncFault]:
    """The faults of an `AsyncBroker`."""
    return Faults(switched_on, AsyncFault)


def _check_named(api: ApiKey, concerned: Filter) -> None:
    """Raise ValueError if requests do not name what a filter is about."""
    root = schema_of(request_class(api)).root
    if concerned.topic is not None and not names_topics(root):
        raise ValueError(f"{api.name.lower()} requests name no topics")
    if concerned.partition is not None and not names_partitions(root):
        raise ValueError(f"{api.name.lower()} requests name no partitions")


def _check_answered(api: ApiKey, concerned: Filter) -> None:
    """Raise ValueError if answers have no error for what a filter is about."""
    root = schema_of(response_class(api)).root
    if api in _WITHOUT_ERRORS:
        raise ValueError(f"kafkapy makes no answers with errors for {api.name.lower()}")
    wrong = api in WITHOUT_PARTS and not concerned.is_met
    if concerned.topic is not None and (wrong or not names_topics(root)):
        raise ValueError(f"{api.name.lower()} answers have no error for a topic")
    if concerned.partition is not None and (wrong or not names_partitions(root)):
        raise ValueError(f"{api.name.lower()} answers have no error for a partition")


def near(name: str, known: Iterable[str]) -> str:
    """The names that are like a wrong one, to be added to a message."""
    found = difflib.get_close_matches(name, list(known), n=3)
    return f" (did you mean {' or '.join(found)}?)" if found else ""
