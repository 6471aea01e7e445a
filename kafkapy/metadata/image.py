"""The metadata image: the content of the tree, with fast lookups, for handlers.

An image is immutable. A change makes a new image, which shares all unchanged objects with the old one (an
unchanged topic is the same object, so two images are cheap to compare). All lookups are O(1).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from kafkapy.metadata import znodes
from kafkapy.metadata.delegation_tokens import DelegationToken, read_tokens
from kafkapy.metadata.quotas import ClientQuotas, read_quotas
from kafkapy.metadata.store import MetadataStore, Node, NoNodeError
from kafkapy.metadata.znodes import DamagedNodeError, Endpoint, ReplicaAssignment
from kafkapy.protocol.topic_names import collision_key, why_invalid
from kafkapy.protocol.types import TopicPartition, Uuid

logger = logging.getLogger(__name__)

NO_LEADER = -1
NO_CONTROLLER = -1
NO_NODE = -1
"""The version of a node that does not exist."""


class PartitionState(NamedTuple):
    """The leader and the replicas of a partition.

    `version` is the version of its state node, or NO_NODE before the first election.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    controller_epoch: int = 0
    version: int = 0
    recovery_state: int = 0
    """1 while the leader recovers from an unclean election (KIP-704), else 0."""

    @property
    def exists(self) -> bool:
        """Whether there is such a partition; False for a gap in the numbers of a topic."""
        return bool(self.replicas)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; `configs` holds its own settings.

    `partitions` are those from 0 to the highest number. Older releases of Kafka could leave out numbers;
    the state of such a partition says that it does not exist. `version` is the version of the topic's node,
    `config_version` that of the node of its settings or NO_NODE.
    """

    name: str
    id: Uuid
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
    config_version: int = 0
    named: dict[int, TopicPartition] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The partitions that `find` has named, by number."""

    def find(self, index: int) -> TopicPartition | None:
        """The name of a partition, for all the same object; None if it does not exist."""
        name = self.named.get(index)
        if name is None and 0 <= index < len(self.partitions) and self.partitions[index].exists:
            name = self.named[index] = TopicPartition(self.name, index)
        return name


class AclNode(NamedTuple):
    """The content and the version of a node with ACLs."""

    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker; `epoch` is the number of the transaction that registered it."""

    id: int
    rack: str | None
    endpoints: Mapping[str, Endpoint]
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster at one moment."""

    cluster_id: str = ""
    controller_id: int = NO_CONTROLLER
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topics_by_id: Mapping[Uuid, Topic] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic broker settings by broker id as text; "" holds the defaults of all brokers."""
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_metrics_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of subscriptions to metrics of clients, by the subscription's name."""
    client_quotas: ClientQuotas = field(default_factory=ClientQuotas)
    acls: Mapping[str, AclNode] = field(default_factory=dict)
    """The nodes with ACLs, by path (kafkapy/security/acls/nodes.py)."""
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """The delegation tokens by id, with those that have expired and are not removed yet."""
    salt_secret: bytes = field(default=b"", repr=False)
    """Makes the salts of SCRAM users that do not exist; whatever the node has serves."""
    settings_versions: Mapping[str, int] = field(default_factory=dict)
    """Versions of the nodes below `/config`, except those of topics, by path."""
    unfinished: frozenset[str] = frozenset()
    """Topics without an id (which are not in `topics`) or without states of partitions.

    Somebody has written only their nodes, and the controller adds the rest.
    """
    collisions: Mapping[str, str] = field(default_factory=dict)
    """Names of topics with '.' or '_' by their collision key."""
    _before: Mapping[str, Topic] | None = field(default=None, repr=False, compare=False)
    """The topics of the image before `with_topics`, which changed those in `_changed`."""
    _changed: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, topic: str, index: int) -> PartitionState | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        state = found.partitions[index]
        return state if state.exists else None

    def changed_topics(self, old: MetadataImage) -> Collection[str]:
        """The names of the topics that only one of two images has, or that differ between them.

        From one image to the next this is O(changes), independent of the number of topics.
        """
        if self.topics is old.topics:
            return ()
        if self._before is old.topics:
            return self._changed
        names = dict.fromkeys((*old.topics, *self.topics))
        return [name for name in names if old.topics.get(name) is not self.topics.get(name)]

    def without_history(self) -> MetadataImage:
        """This image without the reference to the previous one, which only `changed_topics` needs."""
        return replace(self, _before=None, _changed=())

    def with_topics(self, changed: Iterable[Topic] = (), deleted: Iterable[str] = ()) -> MetadataImage:
        """This image with topics added, replaced and removed."""
        changed, deleted = tuple(changed), tuple(deleted)
        topics, by_id, collisions = dict(self.topics), dict(self.topics_by_id), dict(self.collisions)
        for name in deleted:
            del by_id[topics.pop(name).id]
            collisions.pop(collision_key(name) or "", None)
        for topic in changed:
            before = topics.get(topic.name)
            if before is not None and before.id != topic.id:
                del by_id[before.id]
            topics[topic.name] = topic
            by_id[topic.id] = topic
            key = collision_key(topic.name)
            if key is not None:
                collisions[key] = topic.name
        return replace(
            self,
            topics=topics,
            topics_by_id=by_id,
            collisions=collisions,
            _before=self.topics,
            _changed=tuple(dict.fromkeys((*deleted, *(topic.name for topic in changed)))),
        )

    def with_broker_config(self, name: str, configs: Mapping[str, str] | None) -> MetadataImage:
        """This image with other dynamic settings for a broker id, or for all brokers ("").

        `None` means that there is no node.
        """
        others = {each: found for each, found in self.broker_configs.items() if each != name}
        return replace(self, broker_configs=others if configs is None else {**others, name: configs})

    def with_group_config(self, group: str, configs: Mapping[str, str]) -> MetadataImage:
        """This image with other settings for a group."""
        return replace(self, group_configs=_with(self.group_configs, group, configs))

    def with_client_metrics_config(self, name: str, configs: Mapping[str, str]) -> MetadataImage:
        """This image with other settings for a subscription to metrics of clients."""
        return replace(self, client_metrics_configs=_with(self.client_metrics_configs, name, configs))

    def with_client_quotas(self, quotas: ClientQuotas) -> MetadataImage:
        """This image with other quotas."""
        return replace(self, client_quotas=quotas)

    def with_acls(self, changed: Mapping[str, AclNode | None]) -> MetadataImage:
        """This image with other nodes of ACLs; None is a node that is gone."""
        acls = dict(self.acls)
        for path, node in changed.items():
            if node is None:
                acls.pop(path, None)
            else:
                acls[path] = node
        return replace(self, acls=acls)

    def with_delegation_tokens(self, changed: Mapping[str, DelegationToken | None]) -> MetadataImage:
        """This image with other delegation tokens; None is one that is gone."""
        tokens = dict(self.delegation_tokens)
        for token_id, token in changed.items():
            if token is None:
                tokens.pop(token_id, None)
            else:
                tokens[token_id] = token
        return replace(self, delegation_tokens=tokens)

    def with_settings_versions(self, changed: Mapping[str, int]) -> MetadataImage:
        """This image with other versions of nodes of settings, or without them (NO_NODE)."""
        versions = {**self.settings_versions, **changed}
        for path, version in changed.items():
            if version == NO_NODE:
                del versions[path]
        return replace(self, settings_versions=versions)

    def with_brokers(self, brokers: Iterable[Broker], controller_id: int) -> MetadataImage:
        """This image with other live brokers."""
        return replace(self, brokers={broker.id: broker for broker in brokers}, controller_id=controller_id)


ACL_PARENTS: Final = (znodes.ACLS, znodes.PREFIXED_ACLS)


def holds_acls(path: str) -> bool:
    """Whether a node has the place of one with ACLs: below that of a type of resources."""
    parent, _, name = path.rpartition("/")
    return bool(name) and parent.rpartition("/")[0] in ACL_PARENTS


def read_acls(node: Node) -> AclNode:
    """The node with ACLs; nobody has looked yet whether it can be understood."""
    return AclNode(node.data, node.stat.version)


async def read_tree(store: MetadataStore) -> dict[str, Node]:
    """The nodes that an image shows, by path.

    Others may write meanwhile: a reader that has watched them since before then reads their changes again.
    """
    tree: dict[str, Node] = {}
    for path in (znodes.CLUSTER_ID, znodes.CONTROLLER):
        with contextlib.suppress(NoNodeError):
            tree[path] = await store.get(path)
    for path in (
        znodes.BROKER_IDS,
        znodes.TOPICS,
        znodes.CONFIG,
        znodes.DELETE_TOPICS,
        znodes.DELEGATION_TOKENS,
        *ACL_PARENTS,
    ):
        tree |= await store.subtree(path)
    return tree


def read_sound_image(tree: Mapping[str, Node]) -> MetadataImage:
    """The image of a tree that others write too.

    Topics with invalid names, and nodes with invalid content, are logged and left out. So are topics that are
    marked for deletion: their logs are deleted, and their nodes are about to be.

    Raises:
        DamagedNodeError: the node of the cluster's id is not valid.
    """
    sound = dict(tree)
    for name in _names(tree, znodes.DELETE_TOPICS):
        sound.pop(znodes.topic_path(name), None)
    for name in _names(tree, znodes.TOPICS):
        if message := why_invalid(name):
            logger.error("a topic of the metadata is ignored: Topic name is invalid: %s", message)
            sound.pop(znodes.topic_path(name), None)
    while True:
        try:
            return read_image(sound)
        except DamagedNodeError as error:
            if error.path == znodes.CLUSTER_ID:
                raise
            logger.error("a part of the metadata is ignored: %s", error)
            del sound[error.path]


def read_image(tree: Mapping[str, Node]) -> MetadataImage:
    """The image of a complete tree.

    Raises:
        DamagedNodeError: the content of a node is not valid.
    """
    names = _names(tree, znodes.TOPICS)
    topics = [topic for name in names if (topic := read_topic(tree, name)) is not None]
    brokers = (
        read_broker(name, tree[f"{znodes.BROKER_IDS}/{name}"]) for name in _names(tree, znodes.BROKER_IDS)
    )
    finished = {topic.name for topic in topics if not is_unfinished(topic)}
    image = MetadataImage(
        cluster_id=znodes.decode_cluster_id(tree[znodes.CLUSTER_ID].data),
        broker_configs={
            "" if name == znodes.DEFAULT_ENTITY else name: _read_config(
                tree, f"{znodes.BROKER_CONFIGS}/{name}"
            )
            for name in _names(tree, znodes.BROKER_CONFIGS)
        },
        group_configs=_read_configs(tree, znodes.GROUP_CONFIGS),
        client_metrics_configs=_read_configs(tree, znodes.CLIENT_METRICS_CONFIGS),
        client_quotas=read_quotas(tree),
        acls={path: read_acls(node) for path, node in tree.items() if holds_acls(path)},
        delegation_tokens=read_tokens(tree),
        salt_secret=tree[znodes.SALT_SECRET].data if znodes.SALT_SECRET in tree else b"",
        settings_versions={
            path: node.stat.version
            for path, node in tree.items()
            if path.startswith(f"{znodes.CONFIG}/")
            and path.count("/") > 2
            and not path.startswith((f"{znodes.TOPIC_CONFIGS}/", f"{znodes.CONFIG_CHANGES}/"))
        },
        unfinished=frozenset(name for name in names if name not in finished),
    )
    return image.with_topics(topics).with_brokers(brokers, read_controller(tree.get(znodes.CONTROLLER)))


def read_controller(node: Node | None) -> int:
    """The controller's id, or NO_CONTROLLER."""
    return NO_CONTROLLER if node is None else znodes.decode_controller(node.data)


def _with(
    all_configs: Mapping[str, Mapping[str, str]], name: str, configs: Mapping[str, str]
) -> Mapping[str, Mapping[str, str]]:
    """`all_configs` with other settings for one name, which is removed if it has none."""
    others = {each: found for each, found in all_configs.items() if each != name}
    return {**others, name: configs} if configs else others


def _read_configs(tree: Mapping[str, Node], parent: str) -> dict[str, Mapping[str, str]]:
    found = ((name, _read_config(tree, f"{parent}/{name}")) for name in _names(tree, parent))
    return {znodes.desanitize(name): configs for name, configs in found if configs}


def _names(tree: Mapping[str, Node], parent: str) -> list[str]:
    prefix = parent + "/"
    return [
        path[len(prefix) :] for path in tree if path.startswith(prefix) and "/" not in path[len(prefix) :]
    ]


def read_topic(tree: Mapping[str, Node], name: str) -> Topic | None:
    """The topic in the nodes; None while it has no id.

    Raises:
        DamagedNodeError: the content of a node is not valid.
    """
    path, config_path = znodes.topic_path(name), znodes.topic_config_path(name)
    node, config = tree[path], tree.get(config_path)
    topic_id, assignment = znodes.decode_topic(path, node.data)
    if topic_id is None:
        return None
    return Topic(
        name,
        topic_id,
        tuple(
            read_partition(tree.get(znodes.partition_state_path(name, n)), name, n, replicas)
            for n, replicas in enumerate(assignment)
        ),
        _read_config(tree, config_path),
        node.stat.version,
        NO_NODE if config is None else config.stat.version,
    )


def is_unfinished(topic: Topic) -> bool:
    """Whether a partition has had no leader yet."""
    return any(state.version == NO_NODE and state.exists for state in topic.partitions)


def read_partition(
    node: Node | None, topic: str, index: int, assignment: ReplicaAssignment
) -> PartitionState:
    """The partition whose state `node` holds.

    Raises:
        DamagedNodeError: the content of the node is not valid.
    """
    if node is None:  # the controller has not elected a leader yet
        return PartitionState(NO_LEADER, 0, (), *assignment, version=NO_NODE)
    path = znodes.partition_state_path(topic, index)
    leader, leader_epoch, isr, controller_epoch, recovery_state = znodes.decode_state(path, node.data)
    return PartitionState(
        leader, leader_epoch, isr, *assignment, controller_epoch, node.stat.version, recovery_state
    )


def _read_config(tree: Mapping[str, Node], path: str) -> Mapping[str, str]:
    node = tree.get(path)
    return {} if node is None else znodes.decode_config(path, node.data)


def read_broker(name: str, node: Node) -> Broker:
    """The broker that has registered with this node.

    Raises:
        DamagedNodeError: the content of the node is not valid.
    """
    path = f"{znodes.BROKER_IDS}/{name}"
    info = znodes.decode_broker(path, node.data)
    endpoints = {endpoint.listener: endpoint for endpoint in info.endpoints}
    try:
        return Broker(int(name), info.rack, endpoints, node.stat.created_zxid)
    except ValueError:
        raise DamagedNodeError(path, node.data) from None
