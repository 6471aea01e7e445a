"""What a handler gets beside the request, and how it may answer.

A handler module `kafkapy/handlers/<api>.py` has one function `handle(context, request)`. It returns

- the response, when it can answer at once: no task is made;
- None, when nothing is to be sent (Produce with acks=0);
- a generator of any of these, where it may take long: it yields wherever others may be served
  (process/turns.py). It
  is run at once; the next request waits as for an awaitable where one turn is not enough;
- an awaitable of a response or None (`async def`, or a future): the connection's next request waits until it
  is answered, as in Apache Kafka, where a channel is muted while a request is in flight;
- `Pipelined(awaitable)`: the connection's next request is handled meanwhile. Answers keep the order of
  requests. An awaitable may itself end in a Pipelined, when only its first part must not be overtaken. With a
  `Watch` (process/waiters.py) in the place of the awaitable no task is made, and the answer is sent from
  within the wake.

A `records` field of a request is a writable memoryview of the connection's receive buffer. It is the
handler's until `handle` returns or, if that is a generator, until it ends; an awaitable that still needs the
bytes calls `context.connection.keep_frame()` first, and from then on they are its own. All other fields are
copies.

If the client goes away, an awaitable of an API whose row in the table says `abandon` is cancelled; all
others run to their end, since they may be in the middle of a change, and their answer is dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kafkapy.broker import BrokerCore
    from kafkapy.network.connection import Connection
    from kafkapy.process.waiters import Watch

ANONYMOUS = "User:ANONYMOUS"
"""The principal of an unauthenticated client, as Apache Kafka names it."""


class Node(NamedTuple):
    """A broker, at the address by which one client reaches it."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True)
class RequestContext:
    """One request: who sent it, by which connection, in which version."""

    broker: BrokerCore
    connection: Connection
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    @property
    def client_host(self) -> str:
        """The client's address, as text."""
        return self.connection.peer_host

    @property
    def listener_name(self) -> str:
        """The listener by which the client came in."""
        return self.connection.listener.name

    @property
    def principal(self) -> str:
        """Who the client is."""
        return self.connection.principal

    def nodes(self) -> list[Node]:
        """The live brokers that have the listener by which the client came in, by id.

        Where a broker advertises no host, it is reached where the client reached us: be that localhost, a
        container's address or a name that somebody forwards.
        """
        nodes = []
        for broker in self.broker.metadata.image.brokers.values():
            endpoint = broker.endpoints.get(self.listener_name)
            if endpoint is not None:
                host = endpoint.host or self.connection.local_host
                nodes.append(Node(broker.id, host, endpoint.port, broker.rack))
        return sorted(nodes)


class Pipelined:
    """An answer that comes later, while the connection's next requests are handled."""

    __slots__ = ("answer",)

    def __init__(self, answer: Awaitable[Any] | Watch) -> None:
        self.answer = answer
