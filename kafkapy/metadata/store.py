"""The metadata tree: ZooKeeper's data model as an interface.

Nodes form a tree and have absolute paths (`/brokers/topics/orders`). A node holds a few bytes and a version
that grows by one with each `set`. Kafka's controller relies on these guarantees:

- every write is atomic, durable when it returns, and ordered: a reader that sees a write sees all earlier
  writes too;
- `multi` applies all of its operations or none of them;
- `set`, `delete` and `Check` may give the version that they expect (-1: any), for compare-and-set;
- an *ephemeral* node is deleted when the session that created it ends, and has no children;
- a *sequence* node gets a 10-digit number, never used before under that parent, appended to its name;
- a *watcher* is called once, on the loop of its session, after the next change of the data or existence (of
  `get` and `exists`), or of the list of names (of `children`). The call precedes the result of any later
  operation;
- a *tree watcher* is called, on the loop of its session, after each change that another session has made in
  a part of the tree, until its own session ends (ZooKeeper's persistent recursive watch, from 3.6 on).

One store object is one session. Source: Apache ZooKeeper's programmer's guide; Kafka's KafkaZkClient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkapy.metadata.session_counts import SessionCounts

ANY_VERSION = -1


class MetadataStoreError(Exception):
    """The store cannot be used.

    The message is one line with the problem and the place.
    """


class StoreClosedError(MetadataStoreError):
    """The broker has closed the store, since it stops."""


class OutcomeUnknownError(MetadataStoreError):
    """The connection was lost while a change was made: all of it was applied, or nothing."""


class NodeError(MetadataStoreError):
    """The state of the tree forbids an operation; nothing was changed."""

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
    """The attributes of a node."""

    version: int
    created_zxid: int
    """The number of the transaction that created it; for `/brokers/ids/<id>`, the broker epoch."""
    owner: int
    """The session of an ephemeral node; 0 for a persistent node."""


class Node(NamedTuple):
    data: bytes
    stat: NodeStat


class EventType(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    UNKNOWN = "unknown"
    """To a tree watcher: the connection was lost, and anything below the path may have changed."""


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

    is_connected = True
    """Whether the store answers, as far as is known."""
    session_counts: SessionCounts | None = None
    """What is counted of a session with ZooKeeper; None for other stores."""

    @property
    @abstractmethod
    def session_id(self) -> int:
        """The owner of the ephemeral nodes that this session creates."""

    @abstractmethod
    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """Apply all operations or none.

        Returns one result per operation: the path of a Create, the new version of a SetData, otherwise None.

        Raises:
            NodeError: the first operation that cannot be applied.
            MetadataStoreError: the store failed.
        """

    @abstractmethod
    async def get(self, path: str, watcher: Watcher | None = None) -> Node:
        """The node at `path`.

        Raises:
            NoNodeError: it does not exist; no watcher is set.
        """

    @abstractmethod
    async def exists(self, path: str, watcher: Watcher | None = None) -> NodeStat | None:
        """The node's stat, or None; the watcher is set in both cases."""

    @abstractmethod
    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """The names of the node's children, sorted.

        Raises:
            NoNodeError: the node does not exist; no watcher is set.
        """

    @abstractmethod
    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        """Those of the nodes at `paths` that exist, by their paths."""

    @abstractmethod
    async def subtree(self, *paths: str) -> dict[str, Node]:
        """All nodes below `paths` by their full paths, parents before children."""

    @abstractmethod
    async def sync(self) -> None:
        """Let later reads show everything that any session had changed before this call.

        Without it they may show less: a ZooKeeper of an ensemble learns of the changes a little later than
        others. What this session has changed is shown in any case.
        """

    @abstractmethod
    async def watch(self, path: str, watcher: TreeWatcher) -> None:
        """Call `watcher` for each node created, changed or deleted at `path` or below it.

        It is called for the changes by other sessions, in order, before the result of any later operation. It
        may be called for those of its own session too, which ZooKeeper does not distinguish.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the session and remove its ephemeral nodes and watchers."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Create a node and return its path, which ends in its number for a sequence node.

        Raises:
            NodeExistsError, NoNodeError (no parent), EphemeralParentError.
        """
        (result,) = await self.multi([Create(path, data, ephemeral, sequence)])
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replace a node's data and return its new version.

        Raises:
            NoNodeError, BadVersionError.
        """
        (result,) = await self.multi([SetData(path, data, version)])
        assert isinstance(result, int)
        return result

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node.

        Raises:
            NoNodeError, BadVersionError, NotEmptyError.
        """
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
