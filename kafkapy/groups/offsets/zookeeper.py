"""Offsets of groups in the metadata tree, as consumers of Kafka 0.8 keep them.

    /consumers/<group>/offsets/<topic>/<partition>      the offset, as decimal digits

Such a consumer coordinates with the others of its group by nodes of its own below `/consumers/<group>`, and
writes its offsets to the tree itself, or has a broker do it by OffsetCommit v0. Any broker does. There are
neither members nor generations, and metadata is not kept.

A group's name is part of a path. One that is not a path below `/consumers` is refused: the client library of
ZooKeeper resolves `..`, so that a name such as `../brokers` would lead elsewhere. A name may have a slash, as
in Apache Kafka. But one such as `g/ids` would put a node among the consumers of another group, which these
cannot read. And a name of 16,000 levels, which one request has room for, would cost ZooKeeper 270 MB.

Source: KafkaApis.commitOffsetsToZookeeper, fetchOffsetsFromZookeeper; ZkData.ConsumerOffset; PathUtils.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkapy.groups.offsets.commit import Commit
from kafkapy.loop.turns import Turns
from kafkapy.metadata.store import (
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
)
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition

NODES_AT_ONCE: Final = 50
"""How many nodes are read or written at a time for one request."""

MAX_LEVELS: Final = 10
"""The most nodes of a path that the name of a group may be."""

CONSUMERS: Final = "/consumers"

_OF_A_GROUP: Final = frozenset({"ids", "owners", "offsets"})
"""The nodes that each group has."""

_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""The characters that a path of ZooKeeper cannot have (its PathUtils)."""

logger = logging.getLogger(__name__)


class ZooKeeperOffsets:
    """The offsets of all groups that are kept in a metadata tree."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def store(self, group: str, commit: Commit[Any], turns: Turns) -> None:
        """Write the acceptable offsets of a request, and give each its error, or NONE."""
        try:
            errors = await self.commit(group, await turns.finish(commit.numbers()))
            await turns.finish(commit.end(errors))
        except KafkaError as error:
            await turns.finish(commit.refuse(error.code))

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ErrorCode]:
        """Write the offsets of a group; return the error of each, or NONE.

        Raises:
            KafkaError: INVALID_GROUP_ID, the name of the group cannot be that of a node.
        """
        below = _offsets_path(group)

        async def write(key: TopicPartition) -> ErrorCode:
            data = b"%d" % offsets[key]
            try:
                await self._set_or_create(f"{below}/{key.topic}/{key.partition}", data)
            except MetadataStoreError as error:
                logger.error("an offset of group %s cannot be written: %s", group, error)
                return ErrorCode.UNKNOWN_SERVER_ERROR
            return ErrorCode.NONE

        errors: dict[TopicPartition, ErrorCode] = {}
        for some in _in_parts(offsets):
            errors.update(zip(some, await asyncio.gather(*map(write, some)), strict=True))
        return errors

    async def fetch(
        self, group: str, keys: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | ErrorCode | None]:
        """The offset of each partition; None if there is none, or the error if it cannot be read.

        Raises:
            KafkaError: INVALID_GROUP_ID, the name of the group cannot be that of a node.
        """
        below = _offsets_path(group)

        async def read(key: TopicPartition) -> int | ErrorCode | None:
            path = f"{below}/{key.topic}/{key.partition}"
            try:
                return int((await self._store.get(path)).data)
            except NoNodeError:
                return None
            except (MetadataStoreError, ValueError) as error:
                logger.error("the offset in %s cannot be read: %s", path, error)
                return ErrorCode.UNKNOWN_SERVER_ERROR

        found: dict[TopicPartition, int | ErrorCode | None] = {}
        for some in _in_parts(keys):
            found.update(zip(some, await asyncio.gather(*map(read, some)), strict=True))
        return found

    async def _set_or_create(self, path: str, data: bytes) -> None:
        while True:
            try:
                await self._store.set(path, data)
                return
            except NoNodeError:
                await self._create_parents(path)
            try:
                await self._store.create(path, data)
                return
            except NodeExistsError:  # another consumer has just created it
                continue

    async def _create_parents(self, path: str) -> None:
        """Create the nodes above a path; others may create them too."""
        names = path.split("/")[1:-1]
        for count in range(1, len(names) + 1):
            parent = "/" + "/".join(names[:count])
            if await self._store.exists(parent) is None:
                try:
                    await self._store.create(parent)
                except NodeExistsError:
                    continue


def _offsets_path(group: str) -> str:
    """The node above the offsets of a group.

    Raises:
        KafkaError: INVALID_GROUP_ID, there cannot be such a node.
    """
    levels = group.split("/")
    if (
        _FORBIDDEN.search(group)
        or len(levels) > MAX_LEVELS
        or any(name in ("", ".", "..") for name in levels)
        or not _OF_A_GROUP.isdisjoint(levels[1:])
    ):
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The name of the group cannot be the name of a node.")
    return f"{CONSUMERS}/{group}/offsets"


def _in_parts(keys: Iterable[TopicPartition]) -> Iterable[list[TopicPartition]]:
    every = list(keys)
    return (every[start : start + NODES_AT_ONCE] for start in range(0, len(every), NODES_AT_ONCE))
