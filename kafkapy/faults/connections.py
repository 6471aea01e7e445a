"""Faults of whole connections: some are refused, dropped or slow, whatever they ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack

from kafkapy.faults.clients import Clients
from kafkapy.faults.fault import Fault, HowOften, often, shown
from kafkapy.faults.filter import Filter
from kafkapy.faults.kinds import PASSED, Asked, Delay, Disconnect, Kind, SlowBytes, positive

if TYPE_CHECKING:
    from kafkapy.faults.switched_on import SwitchedOn
    from kafkapy.network.connection import Connection
    from kafkapy.protocol.frames import RequestHeader

F = TypeVar("F")

_ALL = Filter()


class ConnectionFault(Fault):
    """A fault that meets some connections, and all requests of these."""

    counted = "connections"

    def __init__(self, clients: Clients, name: str, kind: Kind) -> None:
        super().__init__(f"connections({shown(clients._asdict())}).{name}")
        self._clients = clients
        self._kind = kind
        self._decided: dict[Connection, bool] = {}
        """Whether it meets the connections that it concerns, which are open."""

    def concerns(self, connection: Connection, header: RequestHeader) -> bool:
        """Whether it is about a request; on the broker's loop."""
        return self._clients.include(connection, header.client_id)

    def meet(self, asked: Asked) -> object:
        """The answer to a request that it concerns, or PASSED (kinds.py)."""
        connection = asked.connection
        is_met = self._decided.get(connection)
        if is_met is None:
            is_met = self._decided[connection] = self.takes()
            connection.when_closed(lambda: self._decided.pop(connection, None))
        return self._kind.meet(asked, _ALL, lambda: True) if is_met else PASSED


class Refusal(Fault):
    """A fault that resets new connections before they can send anything."""

    counted = "connections"

    def __init__(self, clients: Clients) -> None:
        super().__init__(f"connections({shown(clients._asdict())}).refuse()")
        self._clients = clients

    def refuses(self, listener: str, host: str) -> bool:
        """Whether it meets a new connection; on the broker's loop."""
        return self._clients.come_in(listener, host) and self.takes()


@dataclass(frozen=True, slots=True)
class FaultyConnections(Generic[F]):
    """The connections that a fault concerns, and what it may do to them.

    Each method switches a fault on and returns it. It meets every connection, unless it is told to meet so
    many `times` at most, only every n-th, or each with a `probability` that a `seed` makes repeatable.
    """

    switched_on: SwitchedOn
    shown: Callable[[Fault], F]
    clients: Clients

    def refuse(self, **how_often: Unpack[HowOften]) -> F:
        """Reset new connections as soon as they are made.

        Raises:
            ValueError: by client id, which is not known before a request.
        """
        if self.clients.client_id is not None:
            raise ValueError("a new connection has no client id yet: drop it, or refuse an address")
        return self._switch_on(Refusal(self.clients), how_often)

    def drop(self, **how_often: Unpack[HowOften]) -> F:
        """Close a connection at its next request, which has no effect."""
        return self._switch_on(
            ConnectionFault(self.clients, "drop()", Disconnect(after_effect=False)), how_often
        )

    def delay(self, seconds: float, **how_often: Unpack[HowOften]) -> F:
        """Let each request of a connection wait before it is served."""
        kind = Delay(positive("seconds", seconds))
        return self._switch_on(ConnectionFault(self.clients, str(kind), kind), how_often)

    def slow_bytes(self, per_second: int, **how_often: Unpack[HowOften]) -> F:
        """Send all answers of a connection at so many bytes a second."""
        kind = SlowBytes(positive("per_second", per_second))
        return self._switch_on(ConnectionFault(self.clients, str(kind), kind), how_often)

    def _switch_on(self, fault: Fault, how_often: HowOften) -> F:
        self.switched_on.add(fault, often(**how_often))
        return self.shown(fault)
