"""A metadata tree in memory, with sessions that may lose their connection or expire.

It keeps the contract of `MetadataStore` (the tests of the contract run against it) and knows neither disk nor
threads. `MemoryTree` is the server, `MemoryStore` a broker's session. Between them is a line, which carries
calls in order in each direction. `DirectLine` carries them at once.

A session behaves as one with ZooKeeper (kafkapy/metadata/zookeeper.py). If the connection is lost, a change
that was not answered fails with OutcomeUnknownError, a read is sent again, and with the next connection the
tree watchers hear that anything may have changed. If the session has expired by then, its ephemeral nodes are
gone, and the store has another session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from kafkapy.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    EventType,
    MetadataStore,
    MetadataStoreError,
    Node,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    Operation,
    OutcomeUnknownError,
    SetData,
    TreeWatcher,
    Watcher,
    WatchEvent,
    split_path,
)

T = TypeVar("T")
Call = Callable[[], None]


class Line(Protocol):
    """What carries calls between a store and its tree, in order."""

    def to_tree(self, call: Call) -> None: ...

    def to_store(self, call: Call) -> None: ...


class DirectLine:
    """A line without delay."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def to_tree(self, call: Call) -> None:
        call()

    def to_store(self, call: Call) -> None:
        self._loop.call_soon(call)


class _TreeNode:
    def __init__(self, data: bytes, created: int, owner: int) -> None:
        self.data = data
        self.version = 0
        self.created = created
        self.owner = owner
        self.next_sequence = 0
        self.children: dict[str, None] = {}

    def copy(self) -> _TreeNode:
        other = _TreeNode(self.data, self.created, self.owner)
        other.version, other.next_sequence = self.version, self.next_sequence
        other.children = dict(self.children)
        return other

    def shown(self) -> Node:
        return Node(self.data, NodeStat(self.version, self.created, self.owner))


class _Watch(NamedTuple):
    session: MemoryStore
    call: Callable[[Any], None]


class MemoryTree:
    """The nodes, and who watches them."""

    def __init__(self, note: Callable[..., None] = lambda *_: None) -> None:
        self._nodes: dict[str, _TreeNode] = {"/": _TreeNode(b"", 0, 0)}
        self._zxid = 0
        self._last_session = 0
        self._note = note
        self.created: list[Callable[[str], None]] = []
        """Called with the path of each node that is created."""
        self._stores: dict[int, MemoryStore] = {}
        self._data: dict[str, list[_Watch]] = {}
        self._names: dict[str, list[_Watch]] = {}

    def begin(self, store: MemoryStore) -> int:
        """Begin a session of `store`; return its number."""
        self._last_session += 1
        self._stores[self._last_session] = store
        return self._last_session

    def is_alive(self, session: int) -> bool:
        """Whether a session has neither ended nor expired."""
        return session in self._stores

    def end(self, session: int) -> None:
        """End a session, or let it expire: its ephemeral nodes and watchers are gone."""
        store = self._stores.pop(session, None)
        if store is None:
            return
        for watches in (self._data, self._names):
            for path in list(watches):
                watches[path] = [each for each in watches[path] if each.session is not store]
        owned = sorted(path for path, node in self._nodes.items() if node.owner == session)
        if owned:
            self.multi([Delete(path) for path in owned], 0)

    def multi(self, operations: Sequence[Operation], session: int) -> list[str | int | None]:
        """Apply all operations or none, and tell those who watch."""
        self._zxid += 1
        changed: dict[str, _TreeNode | None] = {}
        events: list[WatchEvent] = []
        results = [self._apply(operation, session, changed, events) for operation in operations]
        for path, node in changed.items():
            if node is None:
                self._nodes.pop(path, None)
            else:
                self._nodes[path] = node
        for event in events:
            if event.type is not EventType.CHILDREN:
                self._note("tree", event.type.value, event.path, session)
            if event.type is EventType.CREATED:
                for call in self.created:
                    call(event.path)
        self._tell(events, session)
        return results

    def read(self, path: str) -> Node | None:
        split_path(path) if path != "/" else None
        node = self._nodes.get(path)
        return None if node is None else node.shown()

    def children(self, path: str) -> list[str]:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        return sorted(node.children)

    def subtree(self, path: str) -> dict[str, Node]:
        prefix = path.rstrip("/") + "/"
        below = [each for each in self._nodes if each.startswith(prefix) and each != "/"]
        return {each: self._nodes[each].shown() for each in sorted(below, key=split_path)}

    def watch(self, names: bool, path: str, store: MemoryStore, watcher: Watcher | None) -> None:
        if watcher is not None:
            (self._names if names else self._data).setdefault(path, []).append(_Watch(store, watcher))

    # --- changes --------------------------------------------------------------------------------------------

    def _apply(
        self,
        operation: Operation,
        session: int,
        changed: dict[str, _TreeNode | None],
        events: list[WatchEvent],
    ) -> str | int | None:
        def find(path: str) -> _TreeNode | None:
            return changed[path] if path in changed else self._nodes.get(path)

        def change(path: str) -> _TreeNode:
            found = find(path)
            assert found is not None
            if path not in changed:
                found = found.copy()
                changed[path] = found
            return found

        path = operation.path
        parent, name = split_path(path)
        node = find(path)
        if isinstance(operation, Create):
            above = find(parent)
            if above is None:
                raise NoNodeError(parent)
            if above.owner:
                raise EphemeralParentError(parent)
            if operation.sequence:
                number = above.next_sequence
                name, path = f"{name}{number:010d}", f"{path}{number:010d}"
                node = find(path)
            if node is not None:
                raise NodeExistsError(path)
            above = change(parent)
            above.next_sequence += operation.sequence
            above.children[name] = None
            changed[path] = _TreeNode(operation.data, self._zxid, session if operation.ephemeral else 0)
            events += [WatchEvent(EventType.CREATED, path), WatchEvent(EventType.CHILDREN, parent)]
            return path
        if node is None:
            raise NoNodeError(path)
        if operation.version not in (ANY_VERSION, node.version):
            raise BadVersionError(path)
        if isinstance(operation, SetData):
            node = change(path)
            node.data = operation.data
            node.version += 1
            events.append(WatchEvent(EventType.CHANGED, path))
            return node.version
        if isinstance(operation, Delete):
            if node.children:
                raise NotEmptyError(path)
            changed[path] = None
            del change(parent).children[name]
            events += [WatchEvent(EventType.DELETED, path), WatchEvent(EventType.CHILDREN, parent)]
        else:
            assert isinstance(operation, Check)
        return None

    def _tell(self, events: list[WatchEvent], cause: int) -> None:
        for number, store in list(self._stores.items()):
            if number != cause:
                store.tell_trees(events)
        for event in events:
            once: list[_Watch] = []
            if event.type is not EventType.CHILDREN:
                once += self._data.pop(event.path, ())
            if event.type in (EventType.CHILDREN, EventType.DELETED):
                once += self._names.pop(event.path, ())
            for watch in once:
                watch.session.tell(watch.call, event)


class _Request:
    """A request that is not answered yet."""

    def __init__(self, run: Callable[[], Any], changes: bool, future: asyncio.Future[Any]) -> None:
        self.run = run
        self.changes = changes
        self.future = future


class MemoryStore(MetadataStore):
    """A session with a tree."""

    def __init__(self, tree: MemoryTree, line: Line) -> None:
        self._tree = tree
        self._line = line
        self._closed = False
        self.is_connected = True
        """Whether requests are sent; False from the moment the connection is lost."""
        self._connection = 0
        """The number of the connection: what comes by an earlier one is not heard."""
        self.cut_off = False
        """Whether the host has no power: nothing is sent to the tree any more."""
        self._waiting: dict[_Request, None] = {}
        self._trees: list[tuple[str, TreeWatcher]] = []
        self._session = tree.begin(self)

    @property
    def session_id(self) -> int:
        return self._session

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        for operation in operations:
            split_path(operation.path)
        kept = list(operations)
        return await self._ask(lambda: self._tree.multi(kept, self._session), changes=True)

    async def get(self, path: str, watcher: Watcher | None = None) -> Node:
        def run() -> Node:
            node = self._tree.read(path)
            if node is None:
                raise NoNodeError(path)
            self._tree.watch(False, path, self, watcher)
            return node

        return await self._ask(run)

    async def exists(self, path: str, watcher: Watcher | None = None) -> NodeStat | None:
        def run() -> NodeStat | None:
            node = self._tree.read(path)
            self._tree.watch(False, path, self, watcher)
            return None if node is None else node.stat

        return await self._ask(run)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        def run() -> list[str]:
            names = self._tree.children(path)
            self._tree.watch(True, path, self, watcher)
            return names

        return await self._ask(run)

    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        def run() -> dict[str, Node]:
            return {path: node for path in paths if (node := self._tree.read(path)) is not None}

        return await self._ask(run)

    async def subtree(self, *paths: str) -> dict[str, Node]:
        def run() -> dict[str, Node]:
            return {name: node for path in paths for name, node in self._tree.subtree(path).items()}

        return await self._ask(run)

    async def watch(self, path: str, watcher: TreeWatcher) -> None:
        def run() -> None:
            if (path, watcher) not in self._trees:  # the request may be sent twice
                self._trees.append((path, watcher))

        await self._ask(run)

    async def close(self) -> None:
        if self._closed:
            return
        if self.is_connected:
            with contextlib.suppress(OutcomeUnknownError):  # then the session expires
                await self._ask(lambda: self._tree.end(self._session), changes=True)
        self._closed = True

    # --- the connection -------------------------------------------------------------------------------------

    def lose_connection(self) -> None:
        """The broker notices that it has no connection: unanswered changes may be made or not."""
        self.is_connected = False
        self._connection += 1
        for request in [request for request in self._waiting if request.changes]:
            del self._waiting[request]
            if not request.future.done():
                request.future.set_exception(OutcomeUnknownError("the connection to the tree was lost"))

    def connect_again(self) -> None:
        """There is a connection again, in the same session or, if that has expired, in another one."""
        if self._closed or self.is_connected:
            return
        self.is_connected = True
        if not self._tree.is_alive(self._session):
            self._session = self._tree.begin(self)
        for request in tuple(self._waiting):
            self._send(request)
        for path, watcher in tuple(self._trees):
            watcher([WatchEvent(EventType.UNKNOWN, path)])

    def tell(self, watcher: Watcher, event: WatchEvent) -> None:
        """Have a watcher called, after what was sent before."""
        connection = self._connection

        def call() -> None:
            if not self._closed and connection == self._connection:
                watcher(event)

        self._line.to_store(call)

    def tell_trees(self, events: Sequence[WatchEvent]) -> None:
        """Have those tree watchers called whose part of the tree has changed."""
        connection = self._connection
        for path, watcher in self._trees:
            prefix = path.rstrip("/") + "/"
            found = [
                event
                for event in events
                if event.type is not EventType.CHILDREN
                and (event.path == path or event.path.startswith(prefix))
            ]

            def call(watcher: TreeWatcher = watcher, found: list[WatchEvent] = found) -> None:
                if not self._closed and connection == self._connection:
                    watcher(found)

            if found:
                self._line.to_store(call)

    async def _ask(self, run: Callable[[], T], *, changes: bool = False) -> T:
        if self._closed:
            raise MetadataStoreError("The session with the tree is closed.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        request = _Request(run, changes, future)
        self._waiting[request] = None
        if self.is_connected and not self.cut_off:
            self._send(request)
        return await future

    def _send(self, request: _Request) -> None:
        connection, session = self._connection, self._session

        def at_tree() -> None:
            if not self._tree.is_alive(session):
                return  # the store will learn that the session has expired
            try:
                result, error = request.run(), None
            except (MetadataStoreError, ValueError) as failure:
                result, error = None, failure
            self._line.to_store(lambda: answer(result, error))

        def answer(result: Any, error: Exception | None) -> None:
            if connection != self._connection or request not in self._waiting:
                return
            del self._waiting[request]
            if request.future.done():
                return
            if error is None:
                request.future.set_result(result)
            else:
                request.future.set_exception(error)

        self._line.to_tree(at_tree)
