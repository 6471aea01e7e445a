"""The embedded metadata store: a SQLite file and the thread that owns it.

The thread keeps commits off the event loops. It takes all waiting requests, applies each inside a savepoint,
and commits once. So requests that arrive during a sync share the next one. Results and watch events are
delivered on the loop of their session, events first.

Several brokers of one process may open the same file. They share the thread, and each has its own session.

If the disk is full, a commit uses the reserve of its log directory (disk_space.py). Without a reserve, the
requests fail and nothing is changed. If the disk fails, the log directory goes offline, and the store refuses
all requests from then on: after a failed sync, the success of the next one proves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from kafkapy.metadata.sqlite_tree import FailedDiskError, NoRoomError, SqliteTree
from kafkapy.metadata.store import (
    EventType,
    MetadataStore,
    MetadataStoreError,
    Node,
    NodeStat,
    NoNodeError,
    Operation,
    StoreClosedError,
    TreeWatcher,
    Watcher,
    WatchEvent,
)

if TYPE_CHECKING:
    from kafkapy.storage.disk.log_directory import LogDirectory

_MAX_GROUP = 256
"""The most requests that share one commit, and fail together with it."""

T = TypeVar("T")

_Call = tuple[asyncio.AbstractEventLoop, Callable[..., None], Any]
"""A loop, a watcher to call there, and its argument."""


class _Watch(NamedTuple):
    session: int
    loop: asyncio.AbstractEventLoop
    watcher: Watcher


class _TreeWatch(NamedTuple):
    session: int
    loop: asyncio.AbstractEventLoop
    path: str
    watcher: TreeWatcher

    def concerns(self, event: WatchEvent) -> bool:
        """Whether a node in the watched part of the tree was created, changed or deleted."""
        if event.type is EventType.CHILDREN or not event.path.startswith(self.path):
            return False
        return self.path == "/" or event.path[len(self.path) :][:1] in ("", "/")


class _Request(NamedTuple):
    run: Callable[[SqliteTree], Any]
    writes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class EmbeddedStore(MetadataStore):
    """One session with a metadata.db; `open` creates it."""

    def __init__(self, shared: _SharedTree, session_id: int) -> None:
        self._shared = shared
        self._session_id = session_id
        self._closed = False

    @classmethod
    async def open(
        cls, path: str | os.PathLike[str], *, sync: bool | None, directory: LogDirectory | None = None
    ) -> EmbeddedStore:
        """Open or create the file at `path`.

        Args:
            sync: as that of `SqliteTree`.
            directory: the log directory of the file, if it is in one.

        Raises:
            MetadataStoreError: another process holds the file, it is damaged, or it cannot be written.
        """
        shared, session_id = _SharedTree.acquire(path, sync=sync, directory=directory)
        store = cls(shared, session_id)
        try:
            await store._submit(lambda tree: None)
        except MetadataStoreError:
            await store.close()
            raise
        return store

    @property
    def session_id(self) -> int:
        return self._session_id

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        def run(tree: SqliteTree) -> list[str | int | None]:
            results, events = tree.apply(operations, self._session_id)
            self._shared.has_happened(events, self._session_id)
            return results

        return await self._submit(run, writes=True)

    async def get(self, path: str, watcher: Watcher | None = None) -> Node:
        watch = self._watch(watcher)

        def run(tree: SqliteTree) -> Node:
            node = tree.read(path)
            if node is None:
                raise NoNodeError(path)
            self._shared.watch_data(path, watch)
            return node

        return await self._submit(run)

    async def exists(self, path: str, watcher: Watcher | None = None) -> NodeStat | None:
        watch = self._watch(watcher)

        def run(tree: SqliteTree) -> NodeStat | None:
            node = tree.read(path)
            self._shared.watch_data(path, watch)
            return None if node is None else node.stat

        return await self._submit(run)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        watch = self._watch(watcher)

        def run(tree: SqliteTree) -> list[str]:
            names = tree.children(path)
            self._shared.watch_children(path, watch)
            return names

        return await self._submit(run)

    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        def run(tree: SqliteTree) -> dict[str, Node]:
            return {path: node for path in paths if (node := tree.read(path)) is not None}

        return await self._submit(run)

    async def subtree(self, *paths: str) -> dict[str, Node]:
        def run(tree: SqliteTree) -> dict[str, Node]:
            return {name: node for path in paths for name, node in tree.subtree(path).items()}

        return await self._submit(run)

    async def sync(self) -> None:
        """Nothing: all sessions share one tree."""

    async def watch(self, path: str, watcher: TreeWatcher) -> None:
        watch = _TreeWatch(self._session_id, asyncio.get_running_loop(), path, watcher)
        await self._submit(lambda tree: self._shared.watch_tree(watch))

    async def content(self) -> bytes:
        """The file with all commits so far, as one without a write-ahead log.

        Raises:
            MetadataStoreError: it cannot be read.
        """
        return await self._submit(lambda tree: tree.content())

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True

        def run(tree: SqliteTree) -> None:
            self._shared.has_happened(tree.end_session(self._session_id), self._session_id)
            self._shared.forget(self._session_id)

        with contextlib.suppress(MetadataStoreError):  # the next open removes its ephemeral nodes
            await self._shared.submit(run, writes=True)
        await asyncio.get_running_loop().run_in_executor(None, self._shared.release)

    async def _submit(self, run: Callable[[SqliteTree], T], *, writes: bool = False) -> T:
        if self._closed:
            raise StoreClosedError(f"The metadata store {self._shared.path} is closed.")
        return await self._shared.submit(run, writes=writes)

    def _watch(self, watcher: Watcher | None) -> _Watch | None:
        return None if watcher is None else _Watch(self._session_id, asyncio.get_running_loop(), watcher)


class _SharedTree:
    """The thread, its waiting requests, and the watches.

    Everything except `submit`, `acquire` and `release` runs in the thread.
    """

    _by_path: ClassVar[dict[str, _SharedTree]] = {}
    _lock = threading.Lock()

    def __init__(self, path: str, *, sync: bool | None, directory: LogDirectory | None) -> None:
        self.path = path
        self._directory = directory
        self._failure: FailedDiskError | None = None
        """The failure of the disk, after which every request fails."""
        self._happened: list[WatchEvent] = []
        """The events of the running request, for which watchers are called after the commit."""
        self._cause = 0
        """The session that caused these events."""
        self._sync = sync
        self._sessions = 0
        self._last_session = 0
        self._data_watches: dict[str, list[_Watch]] = {}
        self._child_watches: dict[str, list[_Watch]] = {}
        self._tree_watches: list[_TreeWatch] = []
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, name="kafkapy-metadata", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(
        cls, file: str | os.PathLike[str], *, sync: bool | None, directory: LogDirectory | None
    ) -> tuple[_SharedTree, int]:
        """The tree of `file`, which the first caller opens, and the id of a new session."""
        path = os.path.abspath(file)
        with cls._lock:
            shared = cls._by_path.get(path)
            if shared is None:
                shared = cls._by_path[path] = cls(path, sync=sync, directory=directory)
            shared._sessions += 1
            shared._last_session += 1
            return shared, shared._last_session

    def release(self) -> None:
        """End one use of the tree; the last one closes the file and waits for that."""
        with self._lock:
            self._sessions -= 1
            if self._sessions:
                return
            del self._by_path[self.path]
            self._requests.put(None)
            self._thread.join()

    async def submit(self, run: Callable[[SqliteTree], T], *, writes: bool = False) -> T:
        """Run `run` in the thread and return its result, after the commit if it `writes`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._requests.put(_Request(run, writes, loop, future))
        return await future

    def watch_data(self, path: str, watch: _Watch | None) -> None:
        _add(self._data_watches, path, watch)

    def watch_children(self, path: str, watch: _Watch | None) -> None:
        _add(self._child_watches, path, watch)

    def watch_tree(self, watch: _TreeWatch) -> None:
        if watch not in self._tree_watches:  # a request may run twice
            self._tree_watches.append(watch)

    def has_happened(self, events: Sequence[WatchEvent], session: int) -> None:
        """Record the events of a session's running request."""
        self._happened.extend(events)
        self._cause = session

    def forget(self, session: int) -> None:
        """Remove the watches of a session that ended."""
        self._tree_watches = [watch for watch in self._tree_watches if watch.session != session]
        for watches in (self._data_watches, self._child_watches):
            for path in list(watches):
                watches[path] = [watch for watch in watches[path] if watch.session != session]
                if not watches[path]:
                    del watches[path]

    def _main(self) -> None:
        try:
            tree = self._open()
        except MetadataStoreError as error:
            while (request := self._requests.get()) is not None:
                _answer(request, None, error)
            return
        try:
            while (first := self._requests.get()) is not None:
                group: list[_Request] = [first]
                stop = False
                while len(group) < _MAX_GROUP and not self._requests.empty():
                    request = self._requests.get()
                    if request is None:
                        stop = True
                        break
                    group.append(request)
                self._run(tree, group)
                if stop:
                    return
        finally:
            if self._failure is None:
                tree.close()
            else:
                tree.abandon()

    def _open(self) -> SqliteTree:
        """Open the file; if the disk is full, give up the reserve first.

        Raises:
            MetadataStoreError: it cannot be opened.
        """
        try:
            return SqliteTree(self.path, sync=self._sync)
        except NoRoomError:
            if not self._make_room():
                raise
        return SqliteTree(self.path, sync=self._sync)

    def _make_room(self) -> bool:
        """Give up the log directory's reserve; return False if there is none."""
        try:
            return self._directory is not None and self._directory.space.release_reserve()
        except OSError:
            return False

    def _run(self, tree: SqliteTree, group: list[_Request]) -> None:
        """Run a group of requests in order, commit once, call watchers and answer the requests.

        If the commit fails, all requests of the group fail. Watchers are called nevertheless: a needless call
        only costs a read, while a missing call would hide a change from its broker.
        """
        heard: list[_Call] = []
        outcomes = self._outcomes(tree, group, heard)
        if isinstance(outcomes, NoRoomError) and self._make_room():
            outcomes = self._outcomes(tree, group, heard)
        if isinstance(outcomes, FailedDiskError) and self._failure is None:
            self._failure = outcomes
            if self._directory is not None:
                self._directory.failed("changing the metadata", outcomes)
        if isinstance(outcomes, Exception):
            outcomes = [(None, outcomes) for _ in group]
        for loop, watcher, what in heard:
            _call(loop, watcher, what)
        for request, (result, error) in zip(group, outcomes, strict=True):
            _answer(request, result, error)

    def _outcomes(
        self, tree: SqliteTree, group: list[_Request], heard: list[_Call]
    ) -> list[tuple[Any, Exception | None]] | MetadataStoreError:
        """Run and commit a group of requests, and add the calls of watchers to `heard`.

        Returns the result or error of each request, or one error for all.
        """
        if self._failure is not None:
            return self._failure
        outcomes: list[tuple[Any, Exception | None]] = []
        writes = any(request.writes for request in group)
        try:
            if writes:
                tree.begin()
            for request in group:
                self._happened = []
                try:
                    outcomes.append((request.run(tree), None))
                except (sqlite3.Error, MemoryError):
                    raise
                except Exception as error:
                    outcomes.append((None, error))
                # If the group runs for the second time, `heard` has some calls already.
                heard += [each for each in self._take_watches() if each not in heard]
            if writes:
                tree.commit()
        except (sqlite3.Error, MemoryError) as error:
            with contextlib.suppress(sqlite3.Error, MemoryError):
                tree.rollback()
            return tree.explain(error)
        return outcomes

    def _take_watches(self) -> list[_Call]:
        """The calls of watchers for the events of the running request.

        Watchers are removed, except those of a tree.
        """
        if not self._happened:
            return []
        # A session's own changes are skipped first: with one broker, watching costs nothing.
        heard: list[_Call] = [
            (watch.loop, watch.watcher, events)
            for watch in self._tree_watches
            if watch.session != self._cause and (events := list(filter(watch.concerns, self._happened)))
        ]
        if not self._data_watches and not self._child_watches:
            return heard
        for event in self._happened:
            once: list[_Watch] = []
            if event.type is not EventType.CHILDREN:
                once += self._data_watches.pop(event.path, ())
            if event.type in (EventType.CHILDREN, EventType.DELETED):
                once += self._child_watches.pop(event.path, ())
            heard += [(each.loop, each.watcher, event) for each in once]
        return heard


def _add(watches: dict[str, list[_Watch]], path: str, watch: _Watch | None) -> None:
    """Add a watch once, although a request runs twice if it found the disk full."""
    if watch is not None and watch not in watches.setdefault(path, []):
        watches[path].append(watch)


def _answer(request: _Request, result: Any, error: Exception | None) -> None:
    def resolve() -> None:
        if request.future.done():  # its caller was cancelled
            return
        if error is None:
            request.future.set_result(result)
        else:
            request.future.set_exception(error)

    _call(request.loop, resolve)


def _call(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: Any) -> None:
    """Call on the session's loop, unless it is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)
