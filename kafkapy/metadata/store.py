"""The metadata tree: ZooKeeper's data model as an interface.

Nodes form a tree named by absolute paths (`/brokers/topics/orders`). A node holds a few bytes and a version
that grows by one with each `set`. Guarantees, the ones Kafka's controller is built on:

- every write is atomic, durable when it returns, and ordered: a reader sees all writes before the one it
  sees;
- `multi` applies all of its operations or none of them;
- `set`, `delete` and `Check` may name the version they expect (-1: any), which makes compare-and-set;
- an *ephemeral* node goes away when the session that made it ends, and has no children;
- a *sequence* node gets a 10-digit number, never used before under that parent, appended to its name;
- a *watcher* is called once, on the loop of its session, after the next change of what was read: data and
  existence for `get` and `exists`, the list of names for `children`. The call precedes the result of any
  later operation;
- a *tree watcher* is called, on the loop of its session, after each change that another session has made in
  a part of the tree, until its own session ends (ZooKeeper's persistent recursive watch, from 3.6 on).

One store object is one session. Source: Apache ZooKeeper's programmer's guide; Kafka's KafkaZkClient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

ANY_VERSION = -1


class MetadataStoreError(Exception):
    """The store cannot be used: one line that says what and where."""


class NodeError(MetadataStoreError):
    """An operation that the state of the tree forbids; nothing was changed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class NoNodeError(NodeError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExistsError(NodeError):
    """The node to create exists."""


class BadVersionError(NodeError):
    """The node has another version than the operation expects."""


class NotEmptyError(NodeError):
    """The node to delete has children."""


class EphemeralParentError(NodeError):
    """An ephemeral node cannot have children."""


class NodeStat(NamedTuple):
    """What is known of a node beside its data."""

    version: int
    created_zxid: int
    """Number of the transaction that created it; of `/brokers/ids/<id>` this is the broker epoch."""
    owner: int
    """The session that an ephemeral node belongs to; 0 for a persistent one."""


class Node(NamedTuple):
    data: bytes
    stat: NodeStat


class EventType(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    type: EventType
    path: str


Watcher = Callable[[WatchEvent], None]
TreeWatcher = Callable[[Sequence[WatchEvent]], None]


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int = ANY_VERSION


Operation = Create | SetData | Delete | Check


class MetadataStore(ABC):
    """One session with the tree."""

    @property
    @abstractmethod
    def session_id(self) -> int:
        """The owner of the ephemeral nodes made through this object."""

    @abstractmethod
    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """Apply all operations or none.

        Returns one result per operation: the path made by Create, the new version of SetData, else None.

        Raises:
            NodeError: the first operation that cannot be applied.
            MetadataStoreError: the store failed.
        """

    @abstractmethod
    async def get(self, path: str, watcher: Watcher | None = None) -> Node:
        """The node at `path`. Raises NoNodeError (and then sets no watcher)."""

    @abstractmethod
    async def exists(self, path: str, watcher: Watcher | None = None) -> NodeStat | None:
        """The node's stat, or None; the watcher is set in both cases."""

    @abstractmethod
    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """The names of the node's children, sorted. Raises NoNodeError."""

    @abstractmethod
    async def subtree(self, path: str) -> dict[str, Node]:
        """All nodes below `path` by their full paths, parents before children."""

    @abstractmethod
    async def watch(self, path: str, watcher: TreeWatcher) -> None:
        """Have `watcher` hear of each node created, changed or deleted at `path` or below it.

        It hears of the changes of other sessions, in their order, before the result of any later operation.
        Those of its own it may hear of, too: ZooKeeper does not tell them apart.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the session: its ephemeral nodes and watchers go."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Make a node and return its path, which for a sequence node ends in its number.

        Raises:
            NodeExistsError, NoNodeError (no parent), EphemeralParentError.
        """
        (result,) = await self.multi([Create(path, data, ephemeral, sequence)])
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replace a node's data; its new version. Raises NoNodeError, BadVersionError."""
        (result,) = await self.multi([SetData(path, data, version)])
        assert isinstance(result, int)
        return result

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node. Raises NoNodeError, BadVersionError, NotEmptyError."""
        await self.multi([Delete(path, version)])


def split_path(path: str) -> tuple[str, str]:
    """The parent's path ("/" for a top node) and the node's name.

    Raises:
        ValueError: not an absolute path in normal form.
    """
    parent, separator, name = path.rpartition("/")
    if not separator or not name or (parent and not parent.startswith("/")) or "//" in path or "\0" in path:
        raise ValueError(f"{path!r} is not the path of a node")
    return parent or "/", name
