"""Reads changes of the tree by other sessions into the image.

Other brokers, tools and operators write the tree too. The store reports the changed nodes
(`MetadataStore.watch`). They are kept here until the holder of the writer's turn reads them again. A change
that is reported twice only costs a read: an unchanged node leaves the image as it is.

After a lost connection the store reports nothing but that anything may have changed. Then all of the tree is
read. If it is not that of the same cluster any more, the image stays as it is: somebody has emptied
ZooKeeper, or its address is now that of another.

Settings are read again when their own nodes change. The notices in `/config/changes`, which Apache Kafka's
brokers watch, are committed with them and contain nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafkapy.metadata import quotas, znodes
from kafkapy.metadata.delegation_tokens import DelegationToken, read_token, token_at
from kafkapy.metadata.image import (
    ACL_PARENTS,
    NO_NODE,
    AclNode,
    Broker,
    MetadataImage,
    PartitionState,
    Topic,
    holds_acls,
    is_unfinished,
    read_acls,
    read_broker,
    read_controller,
    read_partition,
    read_sound_image,
    read_topic,
    read_tree,
)
from kafkapy.metadata.store import (
    EventType,
    MetadataStore,
    MetadataStoreError,
    Node,
    WatchEvent,
)
from kafkapy.metadata.znodes import DamagedNodeError, ReplicaAssignment
from kafkapy.protocol.topic_names import why_invalid

logger = logging.getLogger(__name__)

NODES_AT_ONCE: Final = 64
"""How many changed nodes are read into one image, so that requests do not wait long."""

PARTITIONS_AT_ONCE: Final = 256
"""How many partitions of a topic are read in one turn of the event loop."""

CONTROLLER_REQUESTS: Final = (
    znodes.DELETE_TOPICS,
    znodes.PREFERRED_REPLICA_ELECTION,
    znodes.REASSIGN_PARTITIONS,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
)
"""Where brokers and operators ask the controller for something by writing a node."""

_WATCHED: Final = (
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.CONTROLLER,
    znodes.CONFIG,
    znodes.DELEGATION_TOKENS,
    *ACL_PARENTS,
    *CONTROLLER_REQUESTS,
)

_NOT_OF_TOPICS: Final = (
    "controller_id",
    "brokers",
    "broker_configs",
    "group_configs",
    "client_metrics_configs",
    "client_quotas",
    "acls",
    "delegation_tokens",
    "settings_versions",
    "unfinished",
)
"""The parts of an image that do not hold topics."""


class TreeChanges:
    """The changed nodes that the image does not show yet.

    The holder of the writer's turn reads them.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._paths: set[str] = set()
        self._anything = False
        """Whether any node may have changed."""
        self._heard = asyncio.Event()
        self.requests: set[str] = set()
        """Those of CONTROLLER_REQUESTS that have changed; the controller discards what it has done."""

    async def watch(self) -> None:
        """Watch the tree; to be called before the tree is read."""
        for path in _WATCHED:
            await self._store.watch(path, self._told)

    async def wait(self) -> None:
        """Wait until there are changes."""
        await self._heard.wait()

    def add(self, paths: Iterable[str]) -> None:
        """Let the next `read` read these nodes again."""
        for path in paths:
            node = _node_of_image(path)
            if node is not None:
                self._paths.add(node)
                self.wake()

    def wake(self) -> None:
        """End `wait`, even if there is nothing to read."""
        self._heard.set()

    async def require_cluster(self, cluster_id: str) -> None:
        """See that the tree is still that of this cluster.

        Raises:
            MetadataStoreError: it is not, or the store failed.
        """
        found = await self._store.nodes([znodes.CLUSTER_ID])
        _require_cluster(found.get(znodes.CLUSTER_ID), cluster_id)

    async def read(self, image: MetadataImage) -> AsyncIterator[MetadataImage]:
        """Read the changed nodes in groups; yield `image` with the changes so far after each group.

        Raises:
            MetadataStoreError: the store failed; the next call reads the remaining nodes.
        """
        self._heard.clear()
        if self._anything:
            self._anything = False
            before, self._paths = self._paths, set()
            try:
                image = await self._read_all(image)
            except MetadataStoreError:
                self._anything = True
                self.add(before)
                self.wake()
                raise
            yield image
        paths, self._paths = self._paths, set()
        # A topic's node is read with the states of its partitions.
        pending = sorted(path for path in paths if (node := _topic_node(path)) == path or node not in paths)
        try:
            while pending:
                image = await self._read(image, pending[:NODES_AT_ONCE])
                del pending[:NODES_AT_ONCE]
                yield image
        finally:
            self.add(pending)

    def _told(self, events: Sequence[WatchEvent]) -> None:
        if any(event.type is EventType.UNKNOWN for event in events):
            self._anything = True
            self.requests.update(CONTROLLER_REQUESTS)
            self.wake()
        self.add(event.path for event in events)
        paths = {f"{event.path}/" for event in events}
        asked = {root for root in CONTROLLER_REQUESTS if any(path.startswith(f"{root}/") for path in paths)}
        if asked:
            self.requests |= asked
            self.wake()

    async def _read_all(self, image: MetadataImage) -> MetadataImage:
        """`image` with the content of the complete tree; objects that are as before stay the same."""
        tree = await read_tree(self._store)
        _require_cluster(tree.get(znodes.CLUSTER_ID), image.cluster_id)
        found = read_sound_image(tree)
        changed = [topic for name, topic in found.topics.items() if topic != image.topics.get(name)]
        deleted = [
            name
            for name in image.topics
            if znodes.topic_path(name) not in tree or znodes.delete_topic_path(name) in tree
        ]
        if changed or deleted:
            image = image.with_topics(changed, deleted)
        others = {
            name: getattr(found, name)
            for name in _NOT_OF_TOPICS
            if getattr(found, name) != getattr(image, name)
        }
        image = replace(image, **others) if others else image
        return _with_salt_secret(image, tree.get(znodes.SALT_SECRET))

    async def _read(self, image: MetadataImage, paths: Sequence[str]) -> MetadataImage:
        """`image` with the current content of some nodes; damaged ones are logged and ignored."""
        nodes = await self._store.nodes(paths)
        topics = _ChangedTopics(image)
        tree = await self._read_topics(
            [name for parent, _, name in (path.rpartition("/") for path in nodes) if parent == znodes.TOPICS]
        )
        acls: dict[str, AclNode | None] = {}
        tokens: dict[str, DelegationToken | None] = {}
        for path in paths:
            node = nodes.get(path)
            parent, _, name = path.rpartition("/")
            try:
                if parent == znodes.TOPICS:
                    await _change_topic(topics, name, node, tree)
                elif path.startswith(f"{znodes.TOPICS}/"):
                    topics.read_state(path, node)
                elif parent == znodes.TOPIC_CONFIGS:
                    topics.read_settings(path, name, node)
                elif parent == znodes.BROKER_IDS:
                    image = _with_broker(image, name, node)
                elif path == znodes.CONTROLLER:
                    image = _with_controller(image, read_controller(node))
                elif holds_acls(path):
                    acls[path] = None if node is None else read_acls(node)
                elif (token_id := token_at(path)) is not None:
                    tokens[token_id] = None if node is None else read_token(token_id, node)
                elif path == znodes.SALT_SECRET:
                    image = _with_salt_secret(image, node)
                else:
                    image = _with_settings(image, path, node)
            except DamagedNodeError as error:
                logger.error("a change of the metadata is ignored: %s", error)
        if changed := {path: node for path, node in acls.items() if node != image.acls.get(path)}:
            image = image.with_acls(changed)
        if any(token != image.delegation_tokens.get(token_id) for token_id, token in tokens.items()):
            image = image.with_delegation_tokens(tokens)
        return topics.put_into(image)

    async def _read_topics(self, names: Sequence[str]) -> dict[str, Node]:
        """The parts of topics in the tree: the nodes below theirs, their settings and marks."""
        if not names:
            return {}
        below, beside = await asyncio.gather(
            self._store.subtree(*map(znodes.topic_path, names)),
            self._store.nodes([*map(znodes.topic_config_path, names), *map(znodes.delete_topic_path, names)]),
        )
        return below | beside


class _ChangedTopics:
    """The topics that differ from those of an image."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.topics
        self._changed: dict[str, Topic | None] = {}
        self._states: dict[str, list[PartitionState]] = {}
        """The states of the partitions of topics of which some were read."""
        self._unfinished = set(image.unfinished)

    def delete(self, name: str) -> None:
        self._states.pop(name, None)
        self._changed[name] = None
        self._unfinished.discard(name)

    def add(self, name: str, topic: Topic | None) -> None:
        """Add a topic that was read; None is a topic without an id."""
        self._states.pop(name, None)
        if topic is None or is_unfinished(topic):
            self._unfinished.add(name)
        else:
            self._unfinished.discard(name)
        if topic is not None:
            self._changed[name] = topic

    def read_state(self, path: str, node: Node | None) -> None:
        name, index = _partition_of(path)
        partitions = self._states.get(name)
        if partitions is None:
            topic = self._topic(name)
            if topic is None:
                return
            partitions = self._states[name] = list(topic.partitions)
        if 0 <= index < len(partitions):
            partitions[index] = read_partition(node, name, index, _assignment(partitions[index]))

    def read_settings(self, path: str, name: str, node: Node | None) -> None:
        topic = self._topic(name)
        if topic is not None:
            configs, version = _settings(path, node)
            self._changed[name] = replace(topic, configs=configs, config_version=version)

    def put_into(self, image: MetadataImage) -> MetadataImage:
        """`image` with these topics; the same object if nothing differs."""
        for name, partitions in list(self._states.items()):
            topic = self._topic(name)
            assert topic is not None  # `delete` has dropped the states
            self.add(name, replace(topic, partitions=tuple(partitions)))
        changed = [
            topic
            for name, topic in self._changed.items()
            if topic is not None and topic != self._topics.get(name)
        ]
        deleted = [name for name, topic in self._changed.items() if topic is None and name in self._topics]
        if changed or deleted:
            image = image.with_topics(changed, deleted)
        if self._unfinished != image.unfinished:
            image = replace(image, unfinished=frozenset(self._unfinished))
        return image

    def _topic(self, name: str) -> Topic | None:
        return self._changed[name] if name in self._changed else self._topics.get(name)


async def _change_topic(
    topics: _ChangedTopics, name: str, node: Node | None, tree: Mapping[str, Node]
) -> None:
    """Note what a topic is now: its node, and what `tree` has below and beside it."""
    if node is None:
        topics.delete(name)
        return
    if message := why_invalid(name):
        logger.error("a topic of the metadata is ignored: Topic name is invalid: %s", message)
        return
    if znodes.delete_topic_path(name) in tree:
        topics.delete(name)  # its logs are deleted, and its nodes are about to be
        return
    path, config_path = znodes.topic_path(name), znodes.topic_config_path(name)
    config = tree.get(config_path)
    topic = read_topic({path: node} if config is None else {path: node, config_path: config}, name)
    if topic is not None:
        partitions = list(topic.partitions)
        for index, state in enumerate(partitions):
            found = tree.get(znodes.partition_state_path(name, index))
            partitions[index] = read_partition(found, name, index, _assignment(state))
            if index % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
                await asyncio.sleep(0)
        topic = replace(topic, partitions=tuple(partitions))
    topics.add(name, topic)


def _require_cluster(node: Node | None, cluster_id: str) -> None:
    """Raise MetadataStoreError unless the node of the cluster's id has this one."""
    found = None if node is None else znodes.decode_cluster_id(node.data)
    if found != cluster_id:
        has = "no cluster" if found is None else f"cluster {found}"
        raise MetadataStoreError(
            f"ZooKeeper has {has} at zookeeper.connect, where cluster {cluster_id} of this broker was."
            " Restore its data, or its address. Until then the broker continues with the metadata that it"
            " knows"
        )


def _node_of_image(path: str) -> str | None:
    """The node to read again for a change at `path`; None if the image does not depend on it.

    Below a topic this is the topic's node, except for the state of a partition.
    """
    if path in (znodes.CONTROLLER, znodes.SALT_SECRET) or path.startswith(f"{znodes.BROKER_IDS}/"):
        return path
    if path.startswith(f"{znodes.TOPICS}/"):
        return path if path.endswith("/state") and path.count("/") == _STATE_DEPTH else _topic_node(path)
    if path.startswith(f"{znodes.DELETE_TOPICS}/"):
        return znodes.topic_path(path.removeprefix(f"{znodes.DELETE_TOPICS}/"))
    if path.startswith(f"{znodes.CONFIG}/") and path.count("/") > 2:
        return None if path.startswith(f"{znodes.CONFIG_CHANGES}/") else path
    return path if holds_acls(path) or token_at(path) is not None else None


_STATE_DEPTH: Final = znodes.partition_state_path("t", 0).count("/")


def _topic_node(path: str) -> str:
    """The topic's node for a node below it, `path` for any other node."""
    if not path.startswith(f"{znodes.TOPICS}/"):
        return path
    name, _, _ = path.removeprefix(f"{znodes.TOPICS}/").partition("/")
    return znodes.topic_path(name)


def _partition_of(path: str) -> tuple[str, int]:
    """The topic and the index of the partition whose state `path` holds.

    The index is -1 if it is not a number.
    """
    *_, topic, _, partition, _ = path.split("/")
    return topic, int(partition) if partition.isdecimal() else -1


def _assignment(state: PartitionState) -> ReplicaAssignment:
    return ReplicaAssignment(state.replicas, state.adding, state.removing)


def _settings(path: str, node: Node | None) -> tuple[Mapping[str, str], int]:
    """The settings in a node, and its version."""
    if node is None:
        return {}, NO_NODE
    return znodes.decode_config(path, node.data), node.stat.version


def _with_broker(image: MetadataImage, name: str, node: Node | None) -> MetadataImage:
    brokers: dict[str, Broker] = {str(broker.id): broker for broker in image.brokers.values()}
    before = brokers.pop(name, None)
    broker = None if node is None else read_broker(name, node)
    if broker == before:
        return image
    if broker is not None:
        brokers[name] = broker
    return image.with_brokers(brokers.values(), image.controller_id)


def _with_controller(image: MetadataImage, controller_id: int) -> MetadataImage:
    if controller_id == image.controller_id:
        return image
    return image.with_brokers(image.brokers.values(), controller_id)


def _with_salt_secret(image: MetadataImage, node: Node | None) -> MetadataImage:
    """`image` with the secret in the tree; while there is none, the one so far counts."""
    if node is None or node.data == image.salt_secret:
        return image
    return replace(image, salt_secret=node.data)


def _with_settings(image: MetadataImage, path: str, node: Node | None) -> MetadataImage:
    """`image` with the settings of a broker, group or subscription, or with quotas."""
    parent, _, node_name = path.rpartition("/")
    name = znodes.desanitize(node_name)
    version = NO_NODE if node is None else node.stat.version
    new = image
    if parent == znodes.BROKER_CONFIGS:
        broker = "" if node_name == znodes.DEFAULT_ENTITY else node_name
        configs = None if node is None else znodes.decode_config(path, node.data)
        if configs != image.broker_configs.get(broker):
            new = image.with_broker_config(broker, configs)
    elif parent == znodes.GROUP_CONFIGS:
        settings, _ = _settings(path, node)
        if settings != image.group_configs.get(name, {}):
            new = image.with_group_config(name, settings)
    elif parent == znodes.CLIENT_METRICS_CONFIGS:
        settings, _ = _settings(path, node)
        if settings != image.client_metrics_configs.get(name, {}):
            new = image.with_client_metrics_config(name, settings)
    elif (entity := quotas.entity_at(path)) is not None:
        found = None if node is None else znodes.decode_config(path, node.data)
        if found != image.client_quotas.configs.get(entity):
            new = image.with_client_quotas(image.client_quotas.with_changes({entity: found}))
    if version != image.settings_versions.get(path, NO_NODE):
        new = new.with_settings_versions({path: version})
    return new
