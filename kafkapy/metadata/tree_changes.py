"""What others have changed in the tree since the image was read.

A broker is not the only one to write the tree: other brokers, tools and operators do, too. The store tells
which nodes have changed (`MetadataStore.watch`). They are kept here until the holder of the writer's turn
reads them anew. A change that is told twice only costs a read: a node that is as the image shows it makes no
other image.

Settings are read anew when their own nodes change. The notices in `/config/changes`, from which Apache
Kafka's brokers learn of it, are committed with them and say nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafkapy.metadata import quotas, znodes
from kafkapy.metadata.image import (
    NO_NODE,
    Broker,
    MetadataImage,
    PartitionState,
    Topic,
    is_unfinished,
    read_broker,
    read_controller,
    read_partition,
    read_topic,
)
from kafkapy.metadata.store import MetadataStore, Node, NoNodeError, WatchEvent
from kafkapy.metadata.topic_names import why_invalid
from kafkapy.metadata.znodes import DamagedNodeError, ReplicaAssignment

logger = logging.getLogger(__name__)

NODES_AT_ONCE: Final = 64
"""Nodes that make one image, so that requests need not wait for long."""

PARTITIONS_AT_ONCE: Final = 256
"""Partitions of a topic that are read before others have their turn."""

_WATCHED: Final = (
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.CONTROLLER,
    znodes.CONFIG,
    znodes.DELETE_TOPICS,
)


class TreeChanges:
    """The changed nodes that the image does not show yet.

    The holder of the writer's turn reads them.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._paths: set[str] = set()
        self._heard = asyncio.Event()

    async def watch(self) -> None:
        """Have the store tell what changes from here on; to be called before the tree is read."""
        for path in _WATCHED:
            await self._store.watch(path, self._told)

    async def wait(self) -> None:
        """Wait until there are changes."""
        await self._heard.wait()

    def add(self, paths: Iterable[str]) -> None:
        """Have nodes read anew."""
        for path in paths:
            node = _node_of_image(path)
            if node is not None:
                self._paths.add(node)
                self.wake()

    def wake(self) -> None:
        """Wake the one who waits, though there may be nothing to read."""
        self._heard.set()

    async def read(self, image: MetadataImage) -> AsyncIterator[MetadataImage]:
        """Read what has changed; yield `image` with ever more of it.

        Raises:
            MetadataStoreError: the store failed; what was not read remains to be read.
        """
        self._heard.clear()
        pending = sorted(path for path in self._paths if _whole(path) not in self._paths - {path})
        self._paths = set()
        try:
            while pending:
                image = await self._read(image, pending[:NODES_AT_ONCE])
                del pending[:NODES_AT_ONCE]
                yield image
        finally:
            self.add(pending)

    def _told(self, events: Sequence[WatchEvent]) -> None:
        self.add(event.path for event in events)

    async def _read(self, image: MetadataImage, paths: Sequence[str]) -> MetadataImage:
        """`image` with what some nodes say now. One that is damaged changes nothing."""
        nodes = await asyncio.gather(*(self._node(path) for path in paths))
        topics = _ChangedTopics(image)
        for path, node in zip(paths, nodes, strict=True):
            parent, _, name = path.rpartition("/")
            try:
                if parent == znodes.TOPICS:
                    await self._read_topic(topics, name, node)
                elif path.startswith(f"{znodes.TOPICS}/"):
                    topics.read_state(path, node)
                elif parent == znodes.TOPIC_CONFIGS:
                    topics.read_settings(path, name, node)
                elif parent == znodes.BROKER_IDS:
                    image = _with_broker(image, name, node)
                elif path == znodes.CONTROLLER:
                    image = _with_controller(image, read_controller(node))
                else:
                    image = _with_settings(image, path, node)
            except DamagedNodeError as error:
                logger.error("a change of the metadata is ignored: %s", error)
        return topics.put_into(image)

    async def _read_topic(self, topics: _ChangedTopics, name: str, node: Node | None) -> None:
        if node is None:
            topics.delete(name)
            return
        if message := why_invalid(name):
            logger.error("a topic of the metadata is ignored: Topic name is invalid: %s", message)
            return
        path, config_path = znodes.topic_path(name), znodes.topic_config_path(name)
        below, config, mark = await asyncio.gather(
            self._store.subtree(path),
            self._node(config_path),
            self._store.exists(znodes.delete_topic_path(name)),
        )
        if mark is not None and not topics.has(name):
            return  # its logs are gone already, its nodes are about to go
        topic = read_topic({path: node} if config is None else {path: node, config_path: config}, name)
        if topic is not None:
            partitions = list(topic.partitions)
            for index, state in enumerate(partitions):
                found = below.get(znodes.partition_state_path(name, index))
                partitions[index] = read_partition(found, name, index, _assignment(state))
                if index % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
                    await asyncio.sleep(0)
            topic = replace(topic, partitions=tuple(partitions))
        topics.add(name, topic)

    async def _node(self, path: str) -> Node | None:
        try:
            return await self._store.get(path)
        except NoNodeError:
            return None


class _ChangedTopics:
    """The topics that differ from those of an image."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.topics
        self._changed: dict[str, Topic | None] = {}
        self._unfinished = set(image.unfinished)

    def has(self, name: str) -> bool:
        return self._topic(name) is not None

    def delete(self, name: str) -> None:
        self._changed[name] = None
        self._unfinished.discard(name)

    def add(self, name: str, topic: Topic | None) -> None:
        """Take over a topic that was read; None has no id yet."""
        if topic is None or is_unfinished(topic):
            self._unfinished.add(name)
        else:
            self._unfinished.discard(name)
        if topic is not None:
            self._changed[name] = topic

    def read_state(self, path: str, node: Node | None) -> None:
        name, index = _partition_of(path)
        topic = self._topic(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return
        partitions = list(topic.partitions)
        partitions[index] = read_partition(node, name, index, _assignment(partitions[index]))
        self.add(name, replace(topic, partitions=tuple(partitions)))

    def read_settings(self, path: str, name: str, node: Node | None) -> None:
        topic = self._topic(name)
        if topic is not None:
            configs, version = _settings(path, node)
            self._changed[name] = replace(topic, configs=configs, config_version=version)

    def put_into(self, image: MetadataImage) -> MetadataImage:
        """`image` with these topics; the same one where they are the same."""
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


def _node_of_image(path: str) -> str | None:
    """The node to read anew for a change at `path`: the topic for most that is below it."""
    if path == znodes.CONTROLLER or path.startswith(f"{znodes.BROKER_IDS}/"):
        return path
    if path.startswith(f"{znodes.TOPICS}/"):
        return path if path.endswith("/state") and path.count("/") == _STATE_DEPTH else _whole(path)
    if path.startswith(f"{znodes.DELETE_TOPICS}/"):
        return znodes.topic_path(path.removeprefix(f"{znodes.DELETE_TOPICS}/"))
    if path.startswith(f"{znodes.CONFIG}/") and path.count("/") > 2:
        return None if path.startswith(f"{znodes.CONFIG_CHANGES}/") else path
    return None


_STATE_DEPTH: Final = znodes.partition_state_path("t", 0).count("/")


def _whole(path: str) -> str:
    """The node of the topic that one below it belongs to."""
    if not path.startswith(f"{znodes.TOPICS}/"):
        return path
    name, _, _ = path.removeprefix(f"{znodes.TOPICS}/").partition("/")
    return znodes.topic_path(name)


def _partition_of(path: str) -> tuple[str, int]:
    """The topic and the index of the partition whose state `path` holds.

    The index is -1 where it is no number.
    """
    *_, topic, _, partition, _ = path.split("/")
    return topic, int(partition) if partition.isdecimal() else -1


def _assignment(state: PartitionState) -> ReplicaAssignment:
    return ReplicaAssignment(state.replicas, state.adding, state.removing)


def _settings(path: str, node: Node | None) -> tuple[Mapping[str, str], int]:
    """What a node of settings holds, and its version."""
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
        found = None if node is None else quotas.decode_quotas(path, node.data)
        if found != image.client_quotas.configs.get(entity):
            new = image.with_client_quotas(image.client_quotas.with_changes({entity: found}))
    if version != image.settings_versions.get(path, NO_NODE):
        new = new.with_settings_versions({path: version})
    return new
