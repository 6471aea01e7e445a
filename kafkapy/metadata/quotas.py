"""The entities that quotas are for, and their nodes in the tree.

A quota is for a user, a client id, a client id of one user, or an address. The name None stands for all
users, client ids or addresses without quotas of their own. The nodes of users hold credentials too, under
names that no quota has. Source: Kafka's ClientQuotaEntity, ConfigEntityName and AdminZkClient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, filterfalse
from typing import Final, TypeAlias

from kafkapy.metadata import znodes
from kafkapy.metadata.store import Node

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of a type and a name or None, in order of the types."""

_CLIENTS: Final = "clients"
_CHANGES_KEPT: Final = 100
"""A look that comes after more changes looks at all contents."""
_PARENTS: Final = {USER: znodes.USER_CONFIGS, CLIENT_ID: znodes.CLIENT_CONFIGS, IP: znodes.IP_CONFIGS}


@dataclass(frozen=True, slots=True)
class ClientQuotas:
    """The contents of the nodes of users, clients and addresses.

    Like an image, it never changes.
    """

    configs: Mapping[QuotaEntity, Mapping[str, str]] = field(default_factory=dict)
    """The settings by entity; empty for a user without quotas whose clients have some."""
    clients: Mapping[QuotaEntity, int] = field(default_factory=dict)
    """The number of a user's clients that have nodes, by user."""
    _identity: object = field(default_factory=object, compare=False, repr=False)
    _history: tuple[tuple[object, Collection[QuotaEntity]], ...] = field(
        default=(), compare=False, repr=False
    )
    """The last changes that led here: the identity of the contents before each, and its entities."""

    def has_clients(self, user: QuotaEntity) -> bool:
        """Whether clients of this user have nodes."""
        return self.clients.get(user, 0) > 0

    def with_changes(self, changes: Mapping[QuotaEntity, Mapping[str, str] | None]) -> ClientQuotas:
        """A copy with other contents of some nodes; None removes a node.

        A user whose clients have nodes has one too: if it is new, `changes` must contain it.
        """
        configs, clients = dict(self.configs), dict(self.clients)
        for entity, content in changes.items():
            if len(entity) > 1:
                user = user_above(entity)
                count = clients.pop(user, 0) + (content is not None) - (entity in configs)
                if count:
                    clients[user] = count
            if content is None:
                configs.pop(entity, None)
            else:
                configs[entity] = content
        return ClientQuotas(
            configs,
            clients,
            _history=(*self._history[1 - _CHANGES_KEPT :], (self._identity, tuple(changes))),
        )

    def changed_since(self, before: ClientQuotas) -> Iterable[QuotaEntity]:
        """The entities that may have other contents than before, each once.

        They are few if the last changes led from those contents to these. Otherwise they are all that there
        are now or were then.
        """
        found: set[QuotaEntity] = set()
        for identity, entities in reversed(self._history):
            found.update(entities)
            if identity is before._identity:
                return found
        return chain(self.configs, filterfalse(self.configs.__contains__, before.configs))


def user_above(entity: QuotaEntity) -> QuotaEntity:
    """The user of a client of one user."""
    return quota_entity({USER: dict(entity)[USER]})


def quota_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """The entity with these names by type; the name None stands for the default."""
    return tuple(sorted(names.items()))


def quota_path(entity: QuotaEntity) -> str:
    """The node with the quotas of `entity`."""
    names = dict(entity)
    if len(names) == 1:
        ((kind, name),) = entity
        return f"{_PARENTS[kind]}/{_node_name(name)}"
    return f"{clients_path(((USER, names[USER]),))}/{_node_name(names[CLIENT_ID])}"


def clients_path(user: QuotaEntity) -> str:
    """The parent of the nodes of a user's clients."""
    return f"{quota_path(user)}/{_CLIENTS}"


def read_quotas(tree: Mapping[str, Node]) -> ClientQuotas:
    """The contents of the nodes of users, clients and addresses.

    Raises:
        DamagedNodeError: the content of a node is not valid.
    """
    found: dict[QuotaEntity, Mapping[str, str]] = {}
    for path, node in tree.items():
        entity = entity_at(path)
        if entity is not None:
            found[entity] = znodes.decode_config(path, node.data)
    return ClientQuotas().with_changes(found)


def entity_at(path: str) -> QuotaEntity | None:
    """The entity whose quotas a node holds; None if it holds no quotas."""
    for kind, parent in _PARENTS.items():
        if path.startswith(parent + "/"):
            names = _names(kind, path[len(parent) + 1 :])
            return None if names is None else quota_entity(names)
    return None


def _names(kind: str, rest: str) -> dict[str, str | None] | None:
    """The names in the rest of a path; None for the parent of a user's clients."""
    name, *below = rest.split("/")
    if not below:
        return {kind: _name(name)}
    return {USER: _name(name), CLIENT_ID: _name(below[1])} if len(below) > 1 else None


def _node_name(name: str | None) -> str:
    return znodes.DEFAULT_ENTITY if name is None else znodes.sanitize(name)


def _name(node_name: str) -> str | None:
    return None if node_name == znodes.DEFAULT_ENTITY else znodes.desanitize(node_name)
