"""Changes of the tree by another session, and by the broker under test."""

from __future__ import annotations

import asyncio
from typing import Any

from kafkapy.configs.changes import Change, Operator
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage, read_image
from kafkapy.metadata.store import (
    Create,
    Delete,
    MetadataStore,
    Operation,
    WatchEvent,
)
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.types import random_uuid


def topic_nodes(name: str, partitions: int = 1, **configs: str) -> list[Operation]:
    """All nodes of a topic."""
    assignment = [ReplicaAssignment((1,)) for _ in range(partitions)]
    nodes: list[Operation] = [
        Create(f"/brokers/topics/{name}", znodes.encode_topic(random_uuid(), assignment)),
        Create(f"/brokers/topics/{name}/partitions"),
        Create(f"/config/topics/{name}", znodes.encode_config(configs)),
    ]
    for index in range(partitions):
        state = znodes.encode_state(LeaderAndIsr(1, 0, (1,), 1))
        nodes.append(Create(f"/brokers/topics/{name}/partitions/{index}"))
        nodes.append(Create(f"/brokers/topics/{name}/partitions/{index}/state", state))
    return nodes


async def remove(hand: MetadataStore, path: str) -> None:
    """Delete a node and all below it, as ZooKeeper's shell does."""
    nodes = [*reversed(await hand.subtree(path)), path]
    await hand.multi([Delete(each) for each in nodes])


async def emptied(hand: MetadataStore, path: str) -> None:
    """Wait until a node has no children."""
    while True:
        changed: asyncio.Future[WatchEvent] = asyncio.get_running_loop().create_future()
        if not await hand.children(path, changed.set_result):
            return
        await changed


async def create(cluster: Any, *topics: NewTopic) -> dict[str, Any]:
    """Create topics as the broker's clients do; the result of each."""
    results: dict[str, Any] = await cluster.admin.topics.create_topics(topics)
    return results


async def alter(cluster: Any, kind: int, name: str, setting: str, operator: Operator, value: str) -> None:
    """Change a setting as the broker's clients do."""
    await cluster.admin.configs.alter(kind, name, [Change(setting, operator, value)])


async def shown(cluster: Any) -> MetadataImage:
    """The contents of the tree, after the broker has published them."""
    image = read_image(await cluster.store.subtree("/"))
    await cluster.until(lambda published: published == image)
    return image
