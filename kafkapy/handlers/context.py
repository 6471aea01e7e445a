"""The context of a request, and the three ways in which a handler may answer.

A handler module `kafkapy/handlers/<api>.py` has one function `handle(context, request)`. It checks, loops
over what is named (per_partition.py), and returns

- an **answer**, where that is in memory and the request names few things: no task is made. It is the
  response, or a list of its parts if it is encoded already (protocol/frames.py), or None if nothing is to be
  sent (Produce with acks=0);
- **steps**, where a request may name many things: a generator that returns an answer or an awaitable. It
  yields wherever other requests may be served (loop/turns.py), which the loops of per_partition.py do for
  it. It is started at once. If one turn is not enough, the next request waits as for an awaitable;
- an **awaitable** of an answer, where a disk, another broker or a client must be waited for (`async def`, or
  a future): the connection's next request waits until it is answered, as in Apache Kafka, where a channel is
  muted while a request is in flight. What may take long in it is steps too (`Turns.finish`), or asks whether
  its turn is over (`Turns.begin`). An answer that waits for callbacks is `Answer.result()`; one that waits
  for several parts has a `Join` (coordination/answer.py).

Produce wraps its awaitable: after `Pipelined(awaitable)` the connection's next request is handled meanwhile.
Answers keep the order of requests. An awaitable may itself return a Pipelined, if the next request must wait
only for its first part. `Pipelined(awaitable, expected)` has the answer encoded ahead, if it can be foreseen
(network/answers.py). With a `Watch` (loop/waiters.py) instead of the awaitable, no task is created, and
the answer is sent within the wake.

A `records` field of a request is a writable memoryview of the connection's receive buffer. It is valid until
`handle` returns or, if that is a generator, until it ends. An awaitable that needs the bytes longer must call
`context.connection.keep_frame()` first. All other fields are copies.

If the client goes away, an awaitable of an API with `abandon` is cancelled. All others run to their end,
since they may be in the middle of a change, and their answers are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, Protocol, TypeVar

from kafkapy.controller.admin import ClusterAdmin
from kafkapy.controller.automatic_topics import AutomaticTopics
from kafkapy.controller.producer_ids import ProducerIds
from kafkapy.fetch.read import FetchParts
from kafkapy.inter_broker.inter_broker import InterBroker
from kafkapy.loop.clock import Clock
from kafkapy.loop.validation import Validation
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.encoded_answers import EncodedAnswers
from kafkapy.metadata.image import MetadataImage
from kafkapy.network.answer_budget import BYTES_OF_A_VALUE
from kafkapy.network.requester import Requester
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.frames import RequestHeader
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.log_start_saves import LogStartSaves
from kafkapy.replicas.refused_batches import RefusedBatches
from kafkapy.replicas.write_gate import WriteGate
from kafkapy.security.acls.hosts import host_address
from kafkapy.security.acls.model import (
    CLUSTER_NAME,
    OPERATIONS,
    REFUSAL_TEXTS,
    REFUSALS,
    Operation,
    ResourceType,
)
from kafkapy.transactions.verifier import Verifier

if TYPE_CHECKING:
    from kafkapy.groups.coordinator import GroupCoordinator
    from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
    from kafkapy.quotas.managers import QuotaManagers
    from kafkapy.quotas.mutation_quotas import MutationQuota
    from kafkapy.replicas.controller_requests import ControllerRequests
    from kafkapy.security.acls.audit_log import AuditLog
    from kafkapy.security.acls.authorizer import Authorizer
    from kafkapy.share.share_parts import ShareParts
    from kafkapy.telemetry.telemetry import ClientTelemetry
    from kafkapy.transactions.coordinator import TransactionCoordinator

P = ParamSpec("P")
T = TypeVar("T")


class BrokerParts(FetchParts, Protocol):
    """The parts of a broker that handlers use."""

    clock: Clock
    node_id: int
    clustered: bool
    """Whether other brokers may be in the cluster: replicas follow leaders, and a controller elects these."""
    cluster_id: str
    metadata: MetadataCache
    """The metadata image, the only source of metadata for handlers."""
    encoded_metadata: EncodedAnswers
    """Answers to Metadata about many partitions, encoded once for all clients."""
    admin: ClusterAdmin
    """The part of the broker that changes the metadata."""
    automatic_topics: AutomaticTopics
    producer_ids: ProducerIds
    controller_requests: ControllerRequests
    """Handles what the controller asks of this broker; in a cluster only."""
    inter_broker: InterBroker
    """Asks other brokers; alone, a broker asks only itself."""
    log_starts: LogStartSaves
    log_mover: LogMover
    groups: GroupCoordinator
    """The coordinators exist when `has_coordinators`, as for APIs that need them (`Api.coordinates`)."""
    shares: ShareParts
    transactions: TransactionCoordinator
    verifier: Verifier
    """Asks coordinators whether partitions of this broker are part of a transaction."""
    zookeeper_offsets: ZooKeeperOffsets | None
    """The offsets of consumers of Kafka 0.8; None without a cluster."""
    validation: Validation
    refused_batches: RefusedBatches
    write_gate: WriteGate

    @property
    def quotas(self) -> QuotaManagers | None:
        """The quotas of clients; None while there are none."""

    authorizer: Authorizer | None
    """Decides what clients may do; None if everyone may do everything."""
    telemetry: ClientTelemetry | None
    """The metrics that clients push; None while metrics are off."""
    audit_log: AuditLog | None
    """Logs the decisions of the authorizer."""

    async def costly(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call`, whose cost clients choose, in one of the threads for such work."""

    def measure_requests(self) -> None:
        """Log all requests, or cease to: the level of their logger may have changed."""

    @property
    def has_coordinators(self) -> bool:
        """Whether the coordinators are made."""

    async def make_coordinators(self) -> None:
        """Make the coordinators, unless they are made.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, the broker lacks descriptors.
        """

    @property
    def offline_replicas(self) -> Mapping[tuple[str, int], tuple[int, ...]]:
        """The brokers of each partition whose replicas are offline, as the controller reports them."""

    @property
    def shown_image(self) -> MetadataImage:
        """The metadata that clients see: with topics that `metadata` does not have yet."""


class Node(NamedTuple):
    """A broker, at the address by which one client reaches it."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True)
class RequestContext:
    """The context of one request: its client, connection and version."""

    broker: BrokerParts
    connection: Requester
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    header: RequestHeader

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
        """The identity of the client."""
        return self.connection.principal

    def mutation_quota(self, first_strict_version: int) -> MutationQuota | None:
        """The quota of partitions that this request may create or delete; None: any number.

        Clients of older versions than `first_strict_version` are delayed, and not refused.
        """
        quotas = self.broker.quotas
        if quotas is None or self.connection.is_this_broker:
            return None
        is_strict = self.api_version >= first_strict_version
        return quotas.mutations_of(self.principal, self.client_id or "", is_strict=is_strict)

    @property
    def unrestricted(self) -> bool:
        """Whether the client may do everything, without a question: no `may` can be False."""
        return self.broker.authorizer is None or self.connection.is_this_broker

    def may(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Whether the client may do an operation on a resource.

        The audit log has the decision. `log_if_denied` is False where a client is not refused without the
        right: something is left out of a list, or another right is enough.
        """
        authorizer, connection = self.broker.authorizer, self.connection
        if authorizer is None or connection.is_this_broker:
            return True
        principal, host = connection.principal, host_address(connection.peer_host)
        is_allowed = authorizer.authorize(principal, host, operation, resource_type, name)
        audit_log = self.broker.audit_log
        assert audit_log is not None  # there is one if there is an authorizer
        if not is_allowed:
            if log_if_denied:
                audit_log.refused(principal, host, self.api_key, operation, resource_type, name)
        elif audit_log.logs_allowed:
            audit_log.allowed(principal, host, self.api_key, operation, resource_type, name)
        return is_allowed

    def require(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Raise KafkaError, the authorization error of the resource, unless `may`."""
        if not self.may(operation, resource_type, name):
            refusal = REFUSALS[resource_type]
            raise KafkaError(refusal, REFUSAL_TEXTS[refusal])

    def may_on_cluster(self, operation: Operation, *, log_if_denied: bool = True) -> bool:
        """Whether the client may do an operation on the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied)

    def may_on_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may do an operation on some resource of a type."""
        authorizer, connection = self.broker.authorizer, self.connection
        return (
            authorizer is None
            or connection.is_this_broker
            or authorizer.authorize_by_resource_type(
                connection.principal, host_address(connection.peer_host), operation, resource_type
            )
        )

    def operations_on(self, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may do on a resource, as a bit field (KIP-430)."""
        authorizer, connection = self.broker.authorizer, self.connection
        if authorizer is None or connection.is_this_broker:
            return OPERATIONS[resource_type]
        return authorizer.authorized_operations(
            connection.principal, host_address(connection.peer_host), resource_type, name
        )

    def charge(self, values: int, nbytes: int, refusal: ErrorCode) -> None:
        """Charge a part of the answer to the client before it is made.

        A handler whose answer may be much larger than its request calls this for each part, with the numbers
        in it and the bytes of its texts.

        Raises:
            KafkaError: all answers together leave no room for it. The error is `refusal`, after which clients
                of the API ask again.
        """
        if not self.connection.charge(values + nbytes // BYTES_OF_A_VALUE):
            raise KafkaError(refusal, "The answers to all clients together are too large: ask again later.")

    def nodes(self) -> list[Node]:
        """The live brokers that have the client's listener, by id.

        A broker that advertises no host gets the address by which the client reached this broker, such as
        localhost or a container's address.
        """
        nodes = []
        for broker in self.broker.metadata.image.brokers.values():
            endpoint = broker.endpoints.get(self.listener_name)
            if endpoint is not None:
                host = endpoint.host or self.connection.local_host
                nodes.append(Node(broker.id, host, endpoint.port, broker.rack))
        return sorted(nodes)
