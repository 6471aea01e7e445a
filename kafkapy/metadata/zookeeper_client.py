"""kazoo's client of ZooKeeper, with what it does not know, and where it would end.

It does not know watches of complete trees and reads of many nodes (ZooKeeper 3.6). After a refused login its
thread would end, and its encryption would trust all authorities of the machine.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, ClassVar, Final, NamedTuple

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import (
    SASL,
    GetChildren,
    GetData,
    MultiHeader,
    int_struct,
    multiheader_struct,
    read_buffer,
    read_string,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import Callback, KeeperState, WatchedEvent, ZnodeStat
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from kafkapy.metadata.store import TreeWatcher
from kafkapy.metadata.zookeeper_access import Answer, TicketLogin, ZooKeeperAccess, ZooKeeperLogin

ATTEMPT_SECONDS: Final = 3.0
"""How long a server may take to answer an attempt to connect: one that is starting may never do."""

MAX_TOKENS: Final = 3
"""How many tokens a login sends at most, by DIGEST-MD5 or with one round of Kerberos's."""

STOP_SECONDS: Final = 0.1
"""How often a login by Kerberos that waits for a ticket looks whether it must end."""

_PERSISTENT_RECURSIVE: Final = 1

_ERROR: Final = -1
"""The type of a result that is an error."""

_CONNECTED: Final = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)

Heard = Callable[[WatchedEvent], object]

_kazoo_logger = logging.getLogger("kafkapy.metadata.kazoo")
_kazoo_logger.setLevel(logging.ERROR)  # it warns at each attempt to connect


class _InOrder(SequentialThreadingHandler):  # type: ignore[misc]
    """Calls watchers and completes requests in one thread, in ZooKeeper's order."""

    def dispatch_callback(self, callback: Callback) -> None:
        self.completion_queue.put(lambda: callback.func(*callback.args))


class _Encrypted(_InOrder):
    """Connects by TLS; kazoo would trust all authorities of the machine, too."""

    def __init__(self, encryption: ssl.SSLContext) -> None:
        super().__init__()
        self._encryption = encryption

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> ssl.SSLSocket:
        sock = socket.create_connection(address, timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._encryption.wrap_socket(sock, server_hostname=hostname)
        except BaseException:
            sock.close()
            raise


@dataclass(frozen=True, slots=True)
class AddWatch:
    """The request for a persistent recursive watch, which kazoo 2.11 does not know."""

    type: ClassVar[int] = 106
    """OpCode.addWatch of ZooKeeper 3.6 and later."""
    path: str

    def serialize(self) -> bytearray:
        return bytearray(write_string(self.path)) + _PERSISTENT_RECURSIVE.to_bytes(4, "big")

    @classmethod
    def deserialize(cls, _data: bytes, _offset: int) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class MultiRead:
    """The request to read several nodes, which kazoo 2.11 does not know.

    Its results are pairs of data and stat, lists of names, or errors.
    """

    type: ClassVar[int] = 22
    """OpCode.multiRead of ZooKeeper 3.6 and later."""
    reads: Sequence[GetData | GetChildren]

    def serialize(self) -> bytearray:
        request = bytearray()
        for read in self.reads:
            request += MultiHeader(read.type, False, _ERROR).serialize() + read.serialize()
        request += multiheader_struct.pack(_ERROR, True, _ERROR)
        return request

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[Any]:
        results: list[Any] = []
        while True:
            kind, done, _ = multiheader_struct.unpack_from(data, offset)
            offset += multiheader_struct.size
            if done:
                return results
            if kind == GetData.type:
                content, offset = read_buffer(data, offset)
                results.append((content, ZnodeStat._make(stat_struct.unpack_from(data, offset))))
                offset += stat_struct.size
                continue
            (number,) = int_struct.unpack_from(data, offset)
            offset += int_struct.size
            if kind == _ERROR:
                results.append(exceptions.EXCEPTIONS[number]())
                continue
            names = []
            for _ in range(number):
                name, offset = read_string(data, offset)
                names.append(name)
            results.append(names)


class TreeWatch(NamedTuple):
    """A tree watcher, and what it watches."""

    path: str
    watcher: TreeWatcher
    heard: Heard


class _DataWatchers(defaultdict[str, set[Heard]]):
    """kazoo's watchers: those of nodes are called once, those of complete trees stay."""

    def __init__(self, trees: Mapping[str, TreeWatch]) -> None:
        super().__init__(set)
        self._trees = trees

    def pop(self, path: str, *_default: Any) -> Any:
        """The watchers of a node that has changed."""
        found = [*super().pop(path, ())]
        for root, tree in self._trees.items():
            if path == root or path.startswith(root.rstrip("/") + "/"):
                found.append(tree.heard)
        return found


class ZooKeeperClient(KazooClient):  # type: ignore[misc]
    """kazoo's client, with watches of complete trees, and logins that are tried again."""

    def __init__(
        self, hosts: str, timeout: float, access: ZooKeeperAccess, on_refusal: Callable[[str], None]
    ) -> None:
        """`on_refusal` is called in kazoo's thread with the reason of a failed login."""
        self.trees: dict[str, TreeWatch] = {}
        """By the absolute paths that ZooKeeper knows."""
        self._login = access.login
        self._on_refusal = on_refusal
        self._tokens = 0
        """How many tokens the present login has sent."""
        super().__init__(
            hosts,
            timeout=timeout,
            handler=_InOrder() if access.encryption is None else _Encrypted(access.encryption),
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
            logger=_kazoo_logger,
            sasl_options=None if access.login is None else _sasl_options(access.login),
        )
        if access.login is not None:
            connection = self._connection
            log_in = connection._authenticate_with_sasl
            if isinstance(access.login, TicketLogin):
                log_in = partial(self._show_ticket, access.login)
            connection._authenticate_with_sasl = partial(self._log_in, log_in)
            connection._submit = partial(self._submit, connection._submit)
        self._data_watchers = _DataWatchers(self.trees)
        # kazoo would give each server its share of the session's timeout.
        invoke = self._connection._invoke
        self._connection._invoke = lambda seconds, *what, **more: invoke(
            min(seconds, ATTEMPT_SECONDS), *what, **more
        )

    def _session_callback(self, state: str) -> None:
        # kazoo is connected before it has logged in.
        if self._login is None or state not in _CONNECTED:
            super()._session_callback(state)

    def _submit(self, submit: Callable[..., None], request: Any, *arguments: Any) -> None:
        """Send a request, and bound the tokens of a login."""
        if isinstance(request, SASL):  # kazoo would never stop sending them to a ZooKeeper without users
            self._tokens += 1
            if self._tokens > MAX_TOKENS:
                raise exceptions.AuthFailedError("it has no users")
        submit(request, *arguments)

    def _log_in(self, log_in: Callable[[str, float], None], host: str, seconds: float) -> None:
        """Log in; after a failure, kazoo tries again instead of ending its thread."""
        self._tokens = 0
        try:
            log_in(host, seconds)
        except (ConnectionDropped, self.handler.timeout_exception):
            raise
        except Exception as error:
            if not isinstance(error.__cause__, ConnectionDropped):  # ZooKeeper is stopping
                self._on_refusal(str(error) or type(error).__name__)
            raise ConnectionDropped(f"the login failed: {error!r}") from None
        super()._session_callback(KeeperState.CONNECTED)

    def _show_ticket(self, login: TicketLogin, host: str, seconds: float) -> None:
        """Log in by Kerberos, for which kazoo would need another library than brokers do."""
        connection, answer = self._connection, partial(self._awaited, login.begin(host))
        token, number = answer(None), 0
        while token is not None:
            number += 1
            connection._submit(SASL(token), seconds, number)
            try:
                header, buffer, offset = connection._read_header(seconds)
            except ConnectionDropped as error:
                raise exceptions.AuthFailedError("it has closed the connection") from error
            if header.err:
                raise exceptions.EXCEPTIONS[header.err]()
            token = answer(SASL.deserialize(buffer, offset)[0])

    def _awaited(self, answer: Answer, token: bytes | None) -> bytes | None:
        """The next token of a login, unless the client is to stop first.

        The library of Kerberos asks centres that do not answer for minutes.
        """
        found: Future[bytes | None] = Future()
        Thread(target=_settle, args=(found, answer, token), daemon=True).start()
        while not wait([found], STOP_SECONDS).done:
            if self._stopped.is_set():
                raise ConnectionDropped("the client stops")
        return found.result()

    def _reset_watchers(self) -> None:
        super()._reset_watchers()
        self._data_watchers = _DataWatchers(self.trees)

    def send_async(self, request: AddWatch | MultiRead) -> Any:
        """Send a request that kazoo does not know; its paths are absolute."""
        result = self.handler.async_result()
        self._call(request, result)
        return result


def _settle(found: Future[bytes | None], answer: Answer, token: bytes | None) -> None:
    try:
        found.set_result(answer(token))
    except Exception as error:
        found.set_exception(error)


def acl_of(access: ZooKeeperAccess, path: str) -> list[Any]:
    """Who may use a node that is made, as a node of Apache Kafka's."""
    if not access.is_owned(path):
        return [*OPEN_ACL_UNSAFE]
    return [*CREATOR_ALL_ACL, *(() if access.is_secret(path) else READ_ACL_UNSAFE)]


def _sasl_options(login: ZooKeeperLogin | TicketLogin) -> dict[str, str]:
    if isinstance(login, TicketLogin):
        return {"mechanism": "GSSAPI"}
    return {"mechanism": "DIGEST-MD5", "username": login.username, "password": login.password}
