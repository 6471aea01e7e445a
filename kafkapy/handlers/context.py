"""What a handler gets beside the request, and how it may answer.

A handler module `kafkapy/handlers/<api>.py` has one function `handle(context, request)`. It returns

- the response, when it can answer at once: no task is made;
- None, when nothing is to be sent (Produce with acks=0);
- a generator of any of these, where it may take long: it yields wherever others may be served
  (process/turns.py). It is run at once. Where one turn is not enough, the next request waits as for an
  awaitable;
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

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafkapy.controller.admin import ClusterAdmin
from kafkapy.controller.producer_ids import ProducerIds
from kafkapy.fetch.read import FetchParts
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.metadata.cache import MetadataCache
from kafkapy.network.connection import Connection
from kafkapy.process.clock import Clock
from kafkapy.process.validation import Validation
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.log_start_saves import LogStartSaves


class BrokerParts(FetchParts, Protocol):
    """The parts of a broker that handlers use."""

    clock: Clock
    node_id: int
    cluster_id: str
    metadata: MetadataCache
    """What the cluster is: handlers look up nothing elsewhere."""
    admin: ClusterAdmin
    """What changes the metadata."""
    producer_ids: ProducerIds
    log_starts: LogStartSaves
    log_mover: LogMover
    groups: GroupCoordinator
    validation: Validation


class Node(NamedTuple):
    """A broker, at the address by which one client reaches it."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True)
class RequestContext:
    """One request: who sent it, by which connection, in which version."""

    broker: BrokerParts
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
