"""The clients that take part in telemetry, and when each may ask and push again.

Source: Apache Kafka's ClientMetricsManager, ClientMetricsInstance. Differently from there, a connection has
one instance: the instance that it names first is forgotten when it names another one, and all are forgotten
with their connections. So there are never more than connections.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import Uuid
from kafkapy.telemetry.subscriptions import Asked, Subscriptions

EXPIRY_MS: Final = 60_000
"""After this silence an instance is forgotten, or after three of its intervals if they are longer."""

_INTERVALS: Final = 3


class Connection(Protocol):
    """A connection, as far as it matters here."""

    def when_closed(self, call: Callable[[], object]) -> None:
        """Call `call()` when the connection has closed."""


class ClientInstance:
    """One client."""

    __slots__ = (
        "asked",
        "expires_ms",
        "got_ms",
        "pushed_ms",
        "subscription_id",
        "subscriptions",
        "terminating",
    )

    def __init__(self, instance_id: Uuid, subscriptions: Subscriptions, asked: Asked) -> None:
        self.subscriptions = subscriptions
        """Those of which `asked` was found."""
        self.asked = asked
        self.subscription_id = asked.subscription_id(instance_id)
        self.got_ms = 0
        """When it got its subscription."""
        self.pushed_ms = 0
        self.terminating = False
        """Whether its last push was to be the last one."""
        self.expires_ms = 0

    def may_get(self, now_ms: int) -> bool:
        """Whether it may get its subscription now; if so, it has got it."""
        if now_ms - max(self.got_ms, self.pushed_ms) < self.asked.interval_ms:
            return False
        self.got_ms = now_ms
        return True

    def refusal(self, now_ms: int, *, subscription_id: int, terminating: bool) -> ErrorCode:
        """Why it may not push now; NONE if it may, and it has.

        The first push after it got its subscription may come at any time: clients spread them at random.
        """
        was_terminating, self.terminating = self.terminating, terminating
        if was_terminating:
            return ErrorCode.INVALID_REQUEST
        in_time = self.got_ms > self.pushed_ms or now_ms - self.pushed_ms >= self.asked.interval_ms
        if in_time:
            self.pushed_ms = now_ms
        elif not terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != self.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        return ErrorCode.NONE


class ClientInstances:
    """All clients of a broker; they belong to the event loop."""

    most: int = 16_384
    """The most instances that are kept; the one that asked least recently is forgotten first."""

    def __init__(self) -> None:
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        """The one that asked least recently is first."""
        self._of_connections: dict[Connection, Uuid] = {}

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: Uuid) -> bool:
        return instance_id in self._instances

    def find(self, instance_id: Uuid, subscriptions: Subscriptions, now_ms: int) -> ClientInstance | None:
        """The instance that asks now, if it is known with these subscriptions."""
        instance = self._instances.get(instance_id)
        if instance is None or instance.subscriptions is not subscriptions or instance.expires_ms <= now_ms:
            return None
        self._instances.move_to_end(instance_id)
        _prolong(instance, now_ms)
        return instance

    def put(
        self, instance_id: Uuid, connection: Connection, instance: ClientInstance, now_ms: int
    ) -> ClientInstance:
        """Keep a new instance, or one whose subscriptions have changed, in place of what there was."""
        before = self._of_connections.get(connection)
        if before is not None and before != instance_id:
            self._instances.pop(before, None)
        self._of_connections[connection] = instance_id
        self._instances[instance_id] = instance
        self._instances.move_to_end(instance_id)
        if len(self._instances) > self.most:
            self._instances.popitem(last=False)
        _prolong(instance, now_ms)
        if before is None:
            connection.when_closed(lambda: self._closed(connection))
        return instance

    def expire(self, now_ms: int) -> None:
        """Forget those that have not asked for long."""
        for instance_id in [key for key, each in self._instances.items() if each.expires_ms <= now_ms]:
            del self._instances[instance_id]

    def _closed(self, connection: Connection) -> None:
        self._instances.pop(self._of_connections.pop(connection), None)


def _prolong(instance: ClientInstance, now_ms: int) -> None:
    instance.expires_ms = now_ms + lifetime_ms(instance.asked)


def lifetime_ms(asked: Asked) -> int:
    """How long a client may be silent."""
    return max(EXPIRY_MS, _INTERVALS * asked.interval_ms)
