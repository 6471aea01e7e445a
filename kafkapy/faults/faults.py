"""The faults of a broker, by the API whose requests they concern."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, TypeVar, Unpack

from kafkapy.faults.dispatcher import FaultyDispatcher
from kafkapy.faults.fault import EVERY_TIME, AsyncFault, Fault, HowOften, Often, Requests
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
)
from kafkapy.handlers import IN_CLUSTER
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.types import ApiKey

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore

F = TypeVar("F")

_APIS: Final = {api.key.name.lower(): api.key for api in IN_CLUSTER}

_WITHOUT_ERRORS: Final = frozenset({ApiKey.ALTER_REPLICA_LOG_DIRS})
"""The APIs whose answers are arranged unlike their requests, and have errors for parts only."""

WITHOUT_PARTS: Final = frozenset(
    {*_WITHOUT_ERRORS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA}
)
"""The APIs whose answers are arranged unlike their requests, so that no error has its place by a topic."""


class SwitchedOn:
    """The faults that are switched on; any thread may change them."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after a change, and has the broker's loop call `lead`."""
        self.faults: tuple[Fault, ...] = ()
        self._changed = changed
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Switch a fault on."""
        with self._lock:
            self.faults = (*self.faults, fault)
        self._changed()

    def remove(self, gone: Iterable[Fault]) -> None:
        """Switch faults off."""
        with self._lock:
            self.faults = tuple(fault for fault in self.faults if fault not in gone)
        self._changed()

    async def lead(self, core: BrokerCore) -> None:
        """Lead the requests of clients to the faults, if there are any."""
        faults, dispatcher = self.faults, core.loopback.dispatcher
        core.server.shared.dispatcher = (
            FaultyDispatcher(dispatcher, core.metadata, faults) if faults else dispatcher
        )


class Faults(Generic[F]):
    """The faults of a broker: `faults.produce(topic="orders").delay(1)`.

    Each API that the broker serves is a method, by its name in Kafka's protocol, which takes `topic`,
    `partition` and `client_id`, and returns `FaultyRequests`.
    """

    def __init__(self, switched_on: SwitchedOn, shown: Callable[[Fault], F]) -> None:
        """`shown` makes of a fault what tests get."""
        self._switched_on = switched_on
        self._shown = shown

    def __getattr__(self, api: str) -> Callable[..., FaultyRequests[F]]:
        key = _APIS.get(api)
        if key is None:
            raise AttributeError(f"no API of the broker is called {api}{_near(api, _APIS)}")

        def requests(
            *, topic: str | None = None, partition: int | None = None, client_id: str | None = None
        ) -> FaultyRequests[F]:
            concerned = Requests(key, Filter(topic, partition), client_id)
            return FaultyRequests(self._switched_on, self._shown, concerned)

        return requests

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

    def error(self, code: str, **often: Unpack[HowOften]) -> F:
        """Answer with an error of Kafka's, by its name, and without an effect.

        Only what is concerned gets it: other topics and partitions of the request are served. By topic, all
        of Fetch, ShareFetch, Metadata, OffsetFetch and DescribeTopicPartitions is served, and what the answer
        names gets the error.

        Raises:
            ValueError: there is no such error, or the API has none for a topic or a partition.
        """
        names = [name for name in ErrorCode.__members__ if name != ErrorCode.NONE.name]
        if code not in names:
            raise ValueError(f"no error of Kafka is called {code}{_near(code, names)}")
        api, concerned, _ = self._requests
        if api not in NAMED_BY_ANSWERS:
            _check_named(api, concerned)
        _check_answered(api, concerned)
        return self._switch_on(Error(ErrorCode[code]), **often)

    def delay(self, seconds: float, **often: Unpack[HowOften]) -> F:
        """Let the request wait before it is served, and the connection's next ones with it."""
        return self._switch_on_for_requests(Delay(_positive("seconds", seconds)), **often)

    def disconnect(self, *, after_effect: bool = False, **often: Unpack[HowOften]) -> F:
        """Close the connection before the request is served, or instead of its answer."""
        return self._switch_on_for_requests(Disconnect(after_effect), **often)

    def no_answer(self, **often: Unpack[HowOften]) -> F:
        """Serve the request, and answer neither it nor a later one of its connection."""
        return self._switch_on_for_requests(NoAnswer(), **often)

    def torn_answer(self, **often: Unpack[HowOften]) -> F:
        """Serve the request, send half of the answer, and close the connection."""
        return self._switch_on_for_requests(TornAnswer(), **often)

    def slow_bytes(self, per_second: int, **often: Unpack[HowOften]) -> F:
        """Serve the request, and send the answer at so many bytes a second."""
        return self._switch_on_for_requests(SlowBytes(_positive("per_second", per_second)), **often)

    def _switch_on_for_requests(self, kind: Kind, **often: Unpack[HowOften]) -> F:
        _check_named(self._requests.api, self._requests.concerned)
        return self._switch_on(kind, **often)

    def _switch_on(
        self,
        kind: Kind,
        *,
        times: int | None = None,
        every: int = 1,
        probability: float = EVERY_TIME,
        seed: int | None = None,
    ) -> F:
        if times is not None:
            _positive("times", times)
        if not 0 <= probability <= 1:
            raise ValueError(f"probability={probability} is not between 0 and 1")
        often = Often(times, _positive("every", every), probability, seed)
        fault = Fault(self._requests, kind, often, lambda gone: self._switched_on.remove((gone,)))
        self._switched_on.add(fault)
        return self._shown(fault)


def blocking(switched_on: SwitchedOn) -> Faults[Fault]:
    """The faults of a `Broker`."""
    return Faults(switched_on, lambda fault: fault)


def awaitable(switched_on: SwitchedOn) -> Faults[AsyncFault]:
    """The faults of an `AsyncBroker`."""
    return Faults(switched_on, AsyncFault)


N = TypeVar("N", int, float)


def _positive(name: str, value: N) -> N:
    if value <= 0:
        raise ValueError(f"{name}={value} is not positive")
    return value


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


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
