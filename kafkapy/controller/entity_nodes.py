"""Writes the nodes of users, clients and addresses, which hold quotas and credentials.

They are below /config/users, /config/clients and /config/ips (`kafkapy.metadata.quotas`), and hold numbers
and credentials as text, as in Kafka's ZooKeeper mode. An entity of which nothing is known has no node, except
a user whose clients have quotas. Source: Kafka's AdminZkClient.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from kafkapy.metadata.change_notices import ChangeNotices
from kafkapy.metadata.image import NO_NODE, MetadataImage
from kafkapy.metadata.quotas import (
    USER,
    ClientQuotas,
    QuotaEntity,
    clients_path,
    quota_path,
    user_above,
)
from kafkapy.metadata.store import Create, Delete, SetData
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.metadata.znodes import encode_config

ENTITIES_AT_ONCE: Final = 200
"""How many entities one transaction changes. Other changes wait for its end."""

T = TypeVar("T")


class EntityNodes:
    """The nodes of one cluster."""

    def __init__(self, writer: MetadataWriter, notices: ChangeNotices) -> None:
        self._writer = writer
        self._notices = notices

    def content(self, entity: QuotaEntity) -> Mapping[str, str]:
        """What the node of an entity holds; empty if it has none."""
        return self._writer.image.client_quotas.configs.get(entity, {})

    async def change(self, wanted: Sequence[T], change: Callable[[Sequence[T]], Awaitable[object]]) -> None:
        """Call `change` with some of what is wanted at a time, with the turn of the writer.

        Other changes have their turns in between. It is called again if others have changed its nodes first.

        Raises:
            KafkaError: the metadata cannot be changed. The first entities may have been changed.
        """
        for start in range(0, len(wanted), ENTITIES_AT_ONCE):
            await asyncio.sleep(0)
            async with self._writer.turn:
                some = wanted[start : start + ENTITIES_AT_ONCE]
                await self._writer.until_current(partial(change, some))

    async def commit(self, wanted: Mapping[QuotaEntity, Mapping[str, str]]) -> None:
        """Give the nodes these contents.

        The caller has the turn of the writer.

        Raises:
            NodeError, KafkaError: the metadata cannot be changed.
        """
        image = self._writer.image
        before = image.client_quotas
        changes: dict[QuotaEntity, Mapping[str, str] | None] = {
            entity: content or None
            for entity, content in wanted.items()
            if content != before.configs.get(entity, {})
        }
        if not changes:
            return
        after = before.with_changes(changes)
        # A user has a node while the user or one of the user's clients has quotas.
        users = {user_above(entity) for entity in changes if len(entity) > 1}
        for user in users | {entity for entity in changes if entity[0][0] == USER}:
            own = changes.get(user, before.configs.get(user)) or {}
            changes[user] = own if own or after.has_clients(user) else None
        after = before.with_changes(changes)
        paths = [quota_path(entity) for entity in wanted if entity in changes]
        operations = _operations(image, after, changes)
        await self._notices.commit(operations, paths)
        versions = {operation.path: _version_after(operation) for operation in operations}
        self._writer.publish(image.with_client_quotas(after).with_settings_versions(versions))


def _operations(
    image: MetadataImage, after: ClientQuotas, entities: Iterable[QuotaEntity]
) -> list[Create | SetData | Delete]:
    """The operations that change the nodes of `entities` to those of `after`.

    Parents are created first and deleted last.
    """
    before, versions = image.client_quotas, image.settings_versions
    made: list[Create | SetData | Delete] = []
    gone: list[Create | SetData | Delete] = []
    for entity in sorted(entities, key=len):
        path, configs = quota_path(entity), after.configs.get(entity)
        version = versions.get(path, NO_NODE)
        if configs is None:
            if version != NO_NODE:
                gone.append(Delete(path, version))
        elif version == NO_NODE:
            made.append(Create(path, encode_config(configs)))
        elif configs != before.configs.get(entity):
            made.append(SetData(path, encode_config(configs), version))
        if entity[0][0] == USER and len(entity) == 1:
            folder, version = clients_path(entity), versions.get(clients_path(entity), NO_NODE)
            if after.has_clients(entity) and version == NO_NODE:
                made.append(Create(folder))
            elif version != NO_NODE and not after.has_clients(entity):
                gone.append(Delete(folder, version))
    return [*made, *reversed(gone)]


def _version_after(operation: Create | SetData | Delete) -> int:
    """The version of the node once `operation` is committed."""
    if isinstance(operation, Delete):
        return NO_NODE
    return operation.version + 1 if isinstance(operation, SetData) else 0
