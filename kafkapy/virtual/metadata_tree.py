"""A metadata tree in memory, with sessions that may lose their connection or expire.

It keeps the contract of `MetadataStore` (the tests of the contract run against it) and knows neither disk nor
threads. `MemoryTree` is what has been decided, `MemoryServer` one of the servers, which may know less, and
`MemoryStore` a broker's session with a server. Between these two is a line, which carries calls in order in
each direction.

A server behaves as one of an ensemble of ZooKeepers: it learns of changes in their order, and later than the
one whose session made them. It answers reads from what it knows, unless the session asked it to `sync`.

A session behaves as one with ZooKeeper (kafkapy/metadata/zookeeper.py). If the connection is lost, a change
that was not answered fails with OutcomeUnknownError, a read is sent again, and with the next connection the
tree watchers hear that anything may have changed. If the session has expired by then, its ephemeral nodes are
gone, and the store has another session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
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


class _Change(NamedTuple):
    nodes: dict[str, _TreeNode | None]
    """The nodes that are other ones now; None if one is gone."""
    events: list[WatchEvent]
    cause: int
    """The session that made the change."""


class _Nodes:
    """The nodes as one place knows them."""

    def __init__(self) -> None:
        self._nodes: dict[str, _TreeNode] = {"/": _TreeNode(b"", 0, 0)}

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

    def _take(self, changed: Mapping[str, _TreeNode | None]) -> None:
        for path, node in changed.items():
            if node is None:
                self._nodes.pop(path, None)
            else:
                self._nodes[path] = node


class MemoryServer(_Nodes):
    """A server with its sessions: it tells them what it learns."""

    def __init__(self, later: Callable[[Call], object]) -> None:
        """`later` calls after the time that a change needs to come here."""
        super().__init__()
        self._later = later
        self._coming: deque[_Change] = deque()
        self._is_moving = False
        self._stores: dict[int, MemoryStore] = {}
        self._data: dict[str, list[_Watch]] = {}
        self._names: dict[str, list[_Watch]] = {}

    def begin(self, session: int, store: MemoryStore) -> None:
        self._stores[session] = store

    def end(self, session: int) -> None:
        store = self._stores.pop(session, None)
        for watches in (self._data, self._names):
            for path in list(watches):
                watches[path] = [each for each in watches[path] if each.session is not store]

    def watch(self, names: bool, path: str, store: MemoryStore, watcher: Watcher | None) -> None:
        if watcher is not None:
            (self._names if names else self._data).setdefault(path, []).append(_Watch(store, watcher))

    def learn(self, change: _Change) -> None:
        """Take a change, some time after those before it."""
        self._coming.append(change)
        self._move()

    def catch_up(self) -> None:
        """Take everything that was changed."""
        while self._coming:
            self._take_next()

    def _move(self) -> None:
        if self._coming and not self._is_moving:
            self._is_moving = True
            self._later(self._arrive)

    def _arrive(self) -> None:
        self._is_moving = False
        if self._coming:
            self._take_next()
        self._move()

    def _take_next(self) -> None:
        change = self._coming.popleft()
        self._take(change.nodes)
        for number, store in list(self._stores.items()):
            if number != change.cause:
                store.tell_trees(change.events)
        for event in change.events:
            once: list[_Watch] = []
            if event.type is not EventType.CHILDREN:
                once += self._data.pop(event.path, ())
            if event.type in (EventType.CHILDREN, EventType.DELETED):
                once += self._names.pop(event.path, ())
            for watch in once:
                watch.session.tell(watch.call, event)


class MemoryTree(_Nodes):
    """The nodes as they have been decided, and the servers."""

    def __init__(
        self,
        note: Callable[..., None] = lambda *_: None,
        *,
        servers: int = 1,
        later: Callable[[Call], object] = lambda call: call(),
    ) -> None:
        """`later` calls after the time that a change needs to come to a server."""
        super().__init__()
        self._zxid = 0
        self._last_session = 0
        self._note = note
        self.created: list[Callable[[str], None]] = []
        """Called with the path of each node that is created."""
        self._servers = [MemoryServer(later) for _ in range(servers)]
        self._sessions: dict[int, MemoryServer] = {}

    def server(self) -> MemoryServer:
        """A server for the next session."""
        return self._servers[self._last_session % len(self._servers)]

    def begin(self, server: MemoryServer, store: MemoryStore) -> int:
        """Begin a session of `store`; return its number."""
        self._last_session += 1
        self._sessions[self._last_session] = server
        server.begin(self._last_session, store)
        return self._last_session

    def is_alive(self, session: int) -> bool:
        """Whether a session has neither ended nor expired."""
        return session in self._sessions

    def end(self, session: int) -> None:
        """End a session, or let it expire: its ephemeral nodes and watchers are gone."""
        server = self._sessions.pop(session, None)
        if server is None:
            return
        server.end(session)
        owned = sorted(path for path, node in self._nodes.items() if node.owner == session)
        if owned:
            self.multi([Delete(path) for path in owned], 0)

    def multi(self, operations: Sequence[Operation], session: int) -> list[str | int | None]:
        """Apply all operations or none, and let the servers learn of it."""
        self._zxid += 1
        changed: dict[str, _TreeNode | None] = {}
        events: list[WatchEvent] = []
        results = [self._apply(operation, session, changed, events) for operation in operations]
        self._take(changed)
        for event in events:
            if event.type is not EventType.CHILDREN:
                self._note("tree", event.type.value, event.path, session)
            if event.type is EventType.CREATED:
                for call in self.created:
                    call(event.path)
        for server in self._servers:
            server.learn(_Change(changed, events, session))
        if session in self._sessions:  # it is answered when its server knows
            self._sessions[session].catch_up()
        return results

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


class _Request:
    """A request that is not answered yet."""

    def __init__(self, run: Callable[[], Any], changes: bool, future: asyncio.Future[Any]) -> None:
        self.run = run
        self.changes = changes
        self.future = future


class MemoryStore(MetadataStore):
    """A session with a server of a tree."""

    def __init__(self, tree: MemoryTree, line: Line) -> None:
        self._tree = tree
        self._server = tree.server()
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
        self._session = tree.begin(self._server, self)

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
            node = self._server.read(path)
            if node is None:
                raise NoNodeError(path)
            self._server.watch(False, path, self, watcher)
            return node

        return await self._ask(run)

    async def exists(self, path: str, watcher: Watcher | None = None) -> NodeStat | None:
        def run() -> NodeStat | None:
            node = self._server.read(path)
            self._server.watch(False, path, self, watcher)
            return None if node is None else node.stat

        return await self._ask(run)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        def run() -> list[str]:
            names = self._server.children(path)
            self._server.watch(True, path, self, watcher)
            return names

        return await self._ask(run)

    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        def run() -> dict[str, Node]:
            return {path: node for path in paths if (node := self._server.read(path)) is not None}

        return await self._ask(run)

    async def subtree(self, *paths: str) -> dict[str, Node]:
        def run() -> dict[str, Node]:
            return {name: node for path in paths for name, node in self._server.subtree(path).items()}

        return await self._ask(run)

    async def sync(self) -> None:
        await self._ask(self._server.catch_up)

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
            self._session = self._tree.begin(self._server, self)
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
