"""The metadata of a cluster of one broker.

An export or an import reads metadata into these classes, and writes it from them in the other format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkapy.metadata import znodes
from kafkapy.metadata.delegation_tokens import DelegationToken, encode_token, token_path
from kafkapy.metadata.image import AclNode, MetadataImage
from kafkapy.metadata.quotas import ClientQuotas, clients_path, quota_path
from kafkapy.metadata.znodes import PRODUCER_ID_BLOCK_SIZE, LeaderAndIsr, ProducerIdBlock, ReplicaAssignment
from kafkapy.protocol.types import Uuid
from kafkapy.security.acls.nodes import parent_paths


class KnownPartition(NamedTuple):
    """A partition as Kafka's metadata describes it."""

    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    """The replicas that have all committed records."""
    directories: tuple[Uuid, ...] = ()
    """The ids of the replicas' log directories; empty if the metadata has none."""


@dataclass(slots=True)
class KnownTopic:
    """A topic as Kafka's metadata describes it; its partitions may be on several brokers."""

    name: str
    id: Uuid
    partitions: dict[int, KnownPartition] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class KnownCluster:
    """The content of Apache Kafka's metadata."""

    described_by: str
    """Where the metadata was found, for messages."""
    topics: dict[str, KnownTopic] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    client_metrics_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    client_quotas: ClientQuotas = field(default_factory=ClientQuotas)
    acls: dict[str, AclNode] = field(default_factory=dict)
    """The nodes with ACLs, by path."""
    delegation_tokens: dict[str, DelegationToken] = field(default_factory=dict)
    """The delegation tokens, by id."""
    next_producer_id: int = 0
    not_carried: list[str] = field(default_factory=list)
    """The losses that this broker cannot avoid, in words."""
    doubt: str | None = None
    """Why the metadata may be incomplete, in words; None if it is complete."""
    salt_secret: bytes = field(default=b"", repr=False)
    """The secret that makes the salts of users who do not exist; none if no kafkapy has used the metadata."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster whose only broker is `node_id`: it has the only replica of each partition."""

    node_id: int
    image: MetadataImage
    next_producer_id: int


def cluster_nodes(cluster: Cluster, *, epochs_on: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield the nodes of the cluster's tree (znodes.py): parents first, the cluster's id last.

    So a tree that was written only in part has no id, and no broker uses it.

    Args:
        epochs_on: is added to the leader epochs, if the next broker would not raise them itself.
    """
    image = cluster.image
    for path in znodes.PERSISTENT_PATHS:
        yield path, _producer_ids(cluster) if path == znodes.PRODUCER_ID_BLOCK else b""
    # Above 0: the broker must not take the tree for a new one, or it would adopt other logs as topics.
    yield znodes.CONTROLLER_EPOCH, b"1"
    for topic in image.topics.values():
        replicas = [ReplicaAssignment((cluster.node_id,)) for _ in topic.partitions]
        yield znodes.topic_path(topic.name), znodes.encode_topic(topic.id, replicas)
        yield znodes.partitions_path(topic.name), b""
        for index, state in enumerate(topic.partitions):
            leadership = LeaderAndIsr(cluster.node_id, state.leader_epoch + epochs_on, (cluster.node_id,), 1)
            yield znodes.partition_path(topic.name, index), b""
            yield znodes.partition_state_path(topic.name, index), znodes.encode_state(leadership)
        yield znodes.topic_config_path(topic.name), znodes.encode_config(topic.configs)
    for name, configs in image.broker_configs.items():
        if configs:
            yield znodes.broker_config_path(name), znodes.encode_config(configs)
    for name, configs in image.group_configs.items():
        yield znodes.group_config_path(name), znodes.encode_config(configs)
    for name, configs in image.client_metrics_configs.items():
        yield znodes.client_metrics_config_path(name), znodes.encode_config(configs)
    for entity in sorted(image.client_quotas.configs, key=len):
        yield quota_path(entity), znodes.encode_config(image.client_quotas.configs[entity])
        if image.client_quotas.has_clients(entity):
            yield clients_path(entity), b""
    if image.acls:
        for path in parent_paths():
            yield path, b""
    for path, node in image.acls.items():
        yield path, node.data
    if image.delegation_tokens:
        for path in znodes.DELEGATION_TOKEN_PARENTS:
            yield path, b""
    for token_id, token in image.delegation_tokens.items():
        yield token_path(token_id), encode_token(token)
    if image.salt_secret:
        yield znodes.SALT_SECRET, image.salt_secret
    yield znodes.CLUSTER_ID, znodes.encode_cluster_id(image.cluster_id)


def _producer_ids(cluster: Cluster) -> bytes:
    """Return the last block of producer ids that was given out; the next one begins after it."""
    if not cluster.next_producer_id:
        return b""
    last = cluster.next_producer_id - 1
    return znodes.encode_producer_id_block(
        ProducerIdBlock(cluster.node_id, max(0, last + 1 - PRODUCER_ID_BLOCK_SIZE), last)
    )
