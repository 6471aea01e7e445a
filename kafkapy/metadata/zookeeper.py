"""The metadata tree in ZooKeeper: one session, through kazoo.

kazoo's threads talk to ZooKeeper. Results and watch events reach the event loop in the order in which
ZooKeeper sent them. Paths, versions and contents of nodes are those of Apache Kafka, below the chroot of
`zookeeper.connect`. The first node that is created there creates the chroot.

A session outlives its connection by `zookeeper.session.timeout.ms`. When the connection is lost:

- requests that were not sent wait for the next connection;
- reads that were sent are sent again;
- a write that was sent fails with `OutcomeUnknownError`: ZooKeeper may have applied it;
- watchers are called, because changes may have been missed.

When a session has expired, its ephemeral nodes are gone. kazoo opens another session, and `session_id` is
that of the new one before tree watchers are told that anything may have changed.

Many nodes are read with few requests (multiRead). ZooKeeper knows these and watches of trees from 3.6 on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kazoo import exceptions
from kazoo.protocol.serialization import GetChildren, GetData
from kazoo.protocol.states import EventType as KazooEvent
from kazoo.protocol.states import KazooState, WatchedEvent, ZnodeStat

from kafkapy.metadata.session_counts import SessionCounts
from kafkapy.metadata.store import (
    BadVersionError,
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
    StoreClosedError,
    TreeWatcher,
    Watcher,
    WatchEvent,
    split_path,
)
from kafkapy.metadata.zookeeper_access import EVERYBODY, TicketLogin, ZooKeeperAccess
from kafkapy.metadata.zookeeper_client import (
    AddWatch,
    Heard,
    MultiRead,
    TreeWatch,
    ZooKeeperClient,
    acl_of,
)

READS_AT_ONCE: Final = 500
"""How many nodes one request reads."""

REQUESTS_AT_ONCE: Final = 10
"""The default of zookeeper.max.in.flight.requests."""

MAX_CHANGE_BYTES: Final = 1_000_000
"""The largest request to change nodes.

ZooKeeper closes the connection at a larger one (jute.maxbuffer, 1,048,575 bytes).
"""
_OPERATION_BYTES: Final = 64
"""The bytes of the largest operation, a Create, in a request beside its path and data."""

PROBE_SECONDS: Final = 1.0
"""How long an address that no ZooKeeper has answered at may take to accept a connection."""

SILENT_SECONDS: Final = 30.0
"""How long ZooKeeper may be away before the log says what may be wrong."""

CLOSE_SECONDS: Final = 3.0
"""How long ZooKeeper may take to answer that a session ends."""

RETRY_SECONDS: Final = 0.1
"""After which a read that met a lost connection is sent again."""

_OWN_NODE: Final = "zookeeper"
"""The nodes that ZooKeeper keeps for itself below its root."""

_EVENTS: Final = {
    KazooEvent.CREATED: EventType.CREATED,
    KazooEvent.DELETED: EventType.DELETED,
    KazooEvent.CHANGED: EventType.CHANGED,
    KazooEvent.CHILD: EventType.CHILDREN,
}

_GONE: Final = (
    exceptions.ConnectionLoss,
    exceptions.ConnectionClosedError,
    exceptions.SessionExpiredError,
    exceptions.OperationTimeoutError,
)

_ROLLED_BACK: Final = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
"""The errors in a multi of operations that did not fail themselves."""

_REFUSALS: Final = {
    exceptions.NoNodeError: NoNodeError,
    exceptions.NodeExistsError: NodeExistsError,
    exceptions.BadVersionError: BadVersionError,
    exceptions.NotEmptyError: NotEmptyError,
}

_NOT_ALLOWED: Final = (
    "its access control list allows that to others only. Log in as they do (zookeeper.sasl.jaas.config), open"
    " it (setAcl -R), or choose another chroot."
)

logger = logging.getLogger(__name__)


class ZooKeeperStore(MetadataStore):
    """One session with ZooKeeper; made by `open`."""

    def __init__(
        self, hosts: str, chroot: str, timeout: float, requests_at_once: int, access: ZooKeeperAccess
    ) -> None:
        self._client = ZooKeeperClient(hosts, timeout, access, partial(self._on_loop, self._note_refusal))
        self._chroot = chroot
        self._access = access
        self._loop = asyncio.get_running_loop()
        self.session_counts: SessionCounts = SessionCounts(self._loop.time())
        self._connected = asyncio.Event()
        """Set once ZooKeeper has let this broker in, or has not."""
        self._refusal: str | None = None
        """Why ZooKeeper has refused the last login; None if it has not."""
        self._turns = asyncio.Semaphore(requests_at_once)
        """Requests wait here in order: kazoo blocks the loop when some hundreds wait inside it."""
        self._session = 0
        self._closed = False
        self._watching: asyncio.Task[None] | None = None
        self._explaining: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        connect: str,
        *,
        session_timeout: float,
        connection_timeout: float,
        requests_at_once: int = REQUESTS_AT_ONCE,
        access: ZooKeeperAccess = EVERYBODY,
    ) -> ZooKeeperStore:
        """Connect to ZooKeeper; nothing is written.

        Args:
            connect: HOST:PORT,HOST:PORT/chroot, as in Kafka's zookeeper.connect.
            session_timeout: seconds that the session outlives its connection.
            connection_timeout: seconds to wait for the first connection.
            requests_at_once: how many requests may wait for an answer.
            access: how the broker comes in.

        Raises:
            MetadataStoreError: no server answers, or it is too old, or it refuses the login.
        """
        hosts, separator, chroot = connect.partition("/")
        store = cls(hosts, (separator + chroot).rstrip("/"), session_timeout, requests_at_once, access)
        client = store._client
        client.add_listener(store._state_changed)
        client.start_async()
        try:
            await asyncio.wait_for(store._connected.wait(), connection_timeout)
            if store._refusal is not None:
                raise MetadataStoreError(store._refusal)
            await asyncio.wait_for(store._require_release(connect), connection_timeout)
        except TimeoutError:
            await store.close()
            reason = await store._loop.run_in_executor(None, _why_silent, client.hosts, access)
            raise MetadataStoreError(
                f"No ZooKeeper answers at {connect} within {connection_timeout:g} s. {reason}"
            ) from None
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def session_id(self) -> int:
        return self._session

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        self._require_open()
        size = 0
        for operation in operations:
            split_path(operation.path)
            size += _OPERATION_BYTES + len(operation.path.encode()) + len(self._chroot.encode())
            size += len(operation.data) if isinstance(operation, Create | SetData) else 0
        if size > MAX_CHANGE_BYTES:
            raise MetadataStoreError(
                f"A change of {len(operations)} nodes takes {size:,} bytes, and ZooKeeper takes"
                f" {MAX_CHANGE_BYTES:,} at once."
            )
        transaction = self._client.transaction()
        for operation in operations:
            path = self._chroot + operation.path
            if isinstance(operation, Create):
                acl = acl_of(self._access, operation.path)
                transaction.create(path, operation.data, acl, operation.ephemeral, operation.sequence)
                if not operation.data:
                    # None, not b"": Kafka's ProducerIdBlockZNode and others take empty data for damage.
                    transaction.operations[-1] = transaction.operations[-1]._replace(data=None)
            elif isinstance(operation, SetData):
                transaction.set_data(path, operation.data, operation.version)
            elif isinstance(operation, Delete):
                transaction.delete(path, operation.version)
            else:
                transaction.check(path, operation.version)
        try:
            results = await self._result(transaction.commit_async)
        except _GONE as error:
            raise OutcomeUnknownError(
                f"The connection to ZooKeeper was lost ({type(error).__name__}): whether a change was made is"
                " not known."
            ) from None
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, _ROLLED_BACK):
                if self._chroot and _lacks_root(operation, result):
                    await self._make_chroot()
                    return await self.multi(operations)
                raise _refused(operation, result)
        return [self._outcome(result) for result in results]

    async def get(self, path: str, watcher: Watcher | None = None) -> Node:
        heard = self._hears(path, watcher, EventType.CHANGED)
        try:
            data, stat = await self._read(lambda: self._client.get_async(self._absolute(path), heard))
        except exceptions.NoNodeError:
            raise NoNodeError(path) from None
        return _node(data, stat)

    async def exists(self, path: str, watcher: Watcher | None = None) -> NodeStat | None:
        heard = self._hears(path, watcher, EventType.CHANGED)
        stat = await self._read(lambda: self._client.exists_async(self._absolute(path), heard))
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        heard = self._hears(path, watcher, EventType.CHILDREN)
        try:
            names = await self._read(lambda: self._client.get_children_async(self._absolute(path), heard))
        except exceptions.NoNodeError:
            raise NoNodeError(path) from None
        return sorted(name for name in names if path != "/" or name != _OWN_NODE)

    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        return {path: _node(*found) for path, found in await self._read_many(paths, GetData)}

    async def subtree(self, *paths: str) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        parents: list[str] = list(paths)
        while parents:
            below = [
                f"{parent.rstrip('/')}/{name}"
                for parent, names in await self._read_many(parents, GetChildren)
                for name in sorted(names)
                if parent != "/" or name != _OWN_NODE
            ]
            parents = []
            for number, (each, (data, stat)) in enumerate(await self._read_many(below, GetData)):
                nodes[each] = _node(data, stat)
                if stat.numChildren:
                    parents.append(each)
                if number % READS_AT_ONCE == READS_AT_ONCE - 1:
                    await asyncio.sleep(0)  # let requests run
        return nodes

    async def sync(self) -> None:
        await self._read(lambda: self._client.sync_async(self._absolute("/")))

    async def watch(self, path: str, watcher: TreeWatcher) -> None:
        def heard(event: WatchedEvent) -> None:
            if event.type in _EVENTS:
                changed = event.path.removeprefix(self._chroot) or "/"
                self._tell(watcher, [WatchEvent(_EVENTS[event.type], changed)])

        root = self._absolute(path)
        self._client.trees[root] = TreeWatch(path, watcher, heard)
        await self._read(partial(self._client.send_async, AddWatch(root)))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for task in (self._watching, self._explaining):
            if task is not None:
                task.cancel()
        if not self._client.connected:
            self._disconnect()
        stopping = self._loop.run_in_executor(None, self._stop)
        ended, _ = await asyncio.wait([stopping], timeout=CLOSE_SECONDS)
        if not ended:
            self._disconnect()
            await stopping

    # --- the session --------------------------------------------------------------------------------------

    def _disconnect(self) -> None:
        """End kazoo's wait for an answer; the end of the session is left to its timeout."""
        connected = self._client._connection._socket
        if connected is not None:
            with contextlib.suppress(OSError):  # it is closed
                connected.shutdown(socket.SHUT_RDWR)

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            logger.warning("The connection to ZooKeeper cannot be closed: %r", error)

    def _state_changed(self, state: str) -> None:
        """Called by kazoo's connection thread."""
        session, _ = self._client.client_id or (0, b"")
        self._on_loop(self._note_state, state, session)

    def _note_refusal(self, reason: str) -> None:
        assert self._access.login is not None
        self.session_counts.refusals += 1
        user = self._access.login.username
        self._refusal = (
            f"ZooKeeper does not let this broker in as {user} ({reason}). Correct zookeeper.sasl.jaas.config,"
            " or the section Server of ZooKeeper's JAAS file."
        )
        self._connected.set()

    def _note_state(self, state: str, session: int) -> None:
        if self._closed:
            return
        self.is_connected = state == KazooState.CONNECTED
        counts = self.session_counts
        if not self.is_connected:
            if state == KazooState.SUSPENDED:
                counts.disconnects += 1
            else:
                counts.expires += 1
            what = "connection to" if state == KazooState.SUSPENDED else "session with"
            logger.warning("The %s ZooKeeper is lost", what)
            if self._explaining is None:
                self._explaining = asyncio.create_task(self._explain())
            return
        if self._explaining is not None:
            self._explaining.cancel()
            self._explaining = None
        counts.connects += 1
        before, self._session = self._session, session
        self._refusal = None
        self._connected.set()
        if before:
            logger.info(
                "ZooKeeper answers again; the session is %s", "the same" if before == session else "new"
            )
            if self._watching is not None:
                self._watching.cancel()
            self._watching = asyncio.create_task(self._watch_again())

    async def _explain(self) -> None:
        """Say what may be wrong, if ZooKeeper stays away."""
        await asyncio.sleep(SILENT_SECONDS)
        reason = self._refusal or await self._loop.run_in_executor(
            None, _why_silent, self._client.hosts, self._access
        )
        logger.error(
            "ZooKeeper has not answered for %g s. %s If its data were lost, restore them: it refuses clients"
            " that have seen more than it has.",
            SILENT_SECONDS,
            reason,
        )

    async def _watch_again(self) -> None:
        """Watch the trees by the new connection, then say that anything in them may have changed."""
        trees = dict(self._client.trees)
        for root in trees:
            await self._read(partial(self._client.send_async, AddWatch(root)))
        for tree in trees.values():
            self._tell(tree.watcher, [WatchEvent(EventType.UNKNOWN, tree.path)])

    # --- requests -----------------------------------------------------------------------------------------

    async def _read(self, start: Callable[[], Any]) -> Any:
        """The result of a request that changes nothing: it is sent again after a lost connection."""
        while True:
            self._require_open()
            try:
                return await self._result(start)
            except _GONE:
                await asyncio.sleep(RETRY_SECONDS)
            except exceptions.NoAuthError:
                raise MetadataStoreError(f"ZooKeeper refuses to read: {_NOT_ALLOWED}") from None

    async def _result(self, start: Callable[[], Any]) -> Any:
        """The result of a request of kazoo's; raises its errors."""
        began = self._loop.time()
        async with self._turns:
            future: asyncio.Future[Any] = self._loop.create_future()
            start().rawlink(lambda result: self._on_loop(_settle, future, result))
            try:
                return await future
            except exceptions.SessionClosedRequireSaslError:
                raise MetadataStoreError(
                    "ZooKeeper lets nobody in without a login. Set zookeeper.sasl.jaas.config."
                ) from None
            finally:
                now = self._loop.time()
                self.session_counts.answered(now - began, now)

    async def _read_many(
        self, paths: Sequence[str], kind: type[GetData | GetChildren]
    ) -> list[tuple[str, Any]]:
        """The nodes of ZooKeeper at `paths`; those that do not exist are left out."""
        requests = [
            MultiRead([kind(self._absolute(path), None) for path in paths[start : start + READS_AT_ONCE]])
            for start in range(0, len(paths), READS_AT_ONCE)
        ]
        answers = await asyncio.gather(
            *(self._read(partial(self._client.send_async, request)) for request in requests)
        )
        found = []
        for path, result in zip(paths, (result for answer in answers for result in answer), strict=True):
            if not isinstance(result, Exception):
                found.append((path, result))
            elif isinstance(result, exceptions.NoAuthError):
                raise MetadataStoreError(f"ZooKeeper refuses to read {path}: {_NOT_ALLOWED}")
            elif not isinstance(result, exceptions.NoNodeError):
                raise MetadataStoreError(f"ZooKeeper refuses to read {path}: {type(result).__name__}")
        return found

    async def _make_chroot(self) -> None:
        """Create the chroot and the nodes above it, which may exist."""
        names = self._chroot.split("/")[1:]
        for count in range(1, len(names) + 1):
            path = "/" + "/".join(names[:count])
            with contextlib.suppress(exceptions.NodeExistsError):
                await self._read(partial(self._client.create_async, path, acl=acl_of(self._access, path)))

    async def _require_release(self, connect: str) -> None:
        """Raise MetadataStoreError if ZooKeeper does not know the requests that this store needs."""
        try:
            await self._read(partial(self._client.send_async, MultiRead([])))
        except exceptions.UnimplementedError:
            raise MetadataStoreError(
                f"The ZooKeeper at {connect} is older than 3.6 and lacks watches of complete trees."
                " Upgrade it."
            ) from None

    def _outcome(self, result: Any) -> str | int | None:
        """The result of `multi` for one of kazoo's results."""
        if isinstance(result, str):
            return result.removeprefix(self._chroot)
        return result.version if isinstance(result, ZnodeStat) else None

    def _absolute(self, path: str) -> str:
        """The path that ZooKeeper knows."""
        return self._chroot + path if path != "/" else self._chroot or "/"

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError("The session with ZooKeeper is closed.")

    # --- watchers -----------------------------------------------------------------------------------------

    def _hears(self, path: str, watcher: Watcher | None, unknown: EventType) -> Heard | None:
        """Make a callback for kazoo, which calls it once, with `unknown` after a lost connection."""
        if watcher is None:
            return None

        def heard(event: WatchedEvent) -> None:
            self._tell(watcher, WatchEvent(_EVENTS.get(event.type, unknown), path))

        return heard

    def _tell(self, watcher: Callable[[Any], None], what: Any) -> None:
        self._on_loop(self._call_watcher, watcher, what)

    def _call_watcher(self, watcher: Callable[[Any], None], what: Any) -> None:
        if not self._closed:
            watcher(what)

    def _on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call, *arguments)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


def _why_silent(hosts: Sequence[tuple[str, int]], access: ZooKeeperAccess) -> str:
    """The likely faults if no ZooKeeper answers, and their remedies."""
    for host, port in hosts:
        try:
            socket.create_connection((host, port), PROBE_SECONDS).close()
        except socket.gaierror:
            return f"The name {host} cannot be resolved. Correct zookeeper.connect."
        except OSError:
            continue
        ticket = ", or Kerberos gives no ticket for it" if isinstance(access.login, TicketLogin) else ""
        return (
            f"{host}:{port} accepts connections: it is another server, and zookeeper.connect must be"
            f" corrected, or its ZooKeeper has no quorum{ticket}."
        )
    return "Start it, or correct zookeeper.connect."


def _node(data: bytes | None, stat: ZnodeStat) -> Node:
    """Apache Kafka makes nodes without data, not even an empty text."""
    return Node(data or b"", _stat(stat))


def _stat(stat: ZnodeStat) -> NodeStat:
    return NodeStat(stat.version, stat.czxid, stat.ephemeralOwner)


def _lacks_root(operation: Operation, error: Exception) -> bool:
    """Whether a node could not be created because "/" does not exist."""
    return (
        isinstance(operation, Create)
        and isinstance(error, exceptions.NoNodeError)
        and split_path(operation.path)[0] == "/"
    )


def _refused(operation: Operation, error: Exception) -> MetadataStoreError:
    """Why the tree did not allow an operation."""
    path = operation.path
    if isinstance(operation, Create):
        parent, _ = split_path(path)
        if isinstance(error, exceptions.NoNodeError):
            return NoNodeError(parent)
        if isinstance(error, exceptions.NoChildrenForEphemeralsError):
            return EphemeralParentError(parent)
    for kind, ours in _REFUSALS.items():
        if isinstance(error, kind):
            return ours(path)
    reason = _NOT_ALLOWED if isinstance(error, exceptions.NoAuthError) else str(error) or type(error).__name__
    return MetadataStoreError(f"ZooKeeper refuses a change of {path}: {reason}")
