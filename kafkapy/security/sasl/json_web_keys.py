"""The public keys of those who sign tokens (JWKS), from a file or an https address.

They are read again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names a key that is
not among them, since keys are exchanged without notice. Tokens with invented names of keys cause one read in
`sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms` at most. Source: Kafka's RefreshingHttpsJwks.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from jwt import PyJWK, PyJWKSet
from jwt.exceptions import PyJWTError

MOST_BYTES: Final = 1 << 20
_SECONDS: Final = 10.0

logger = logging.getLogger(__name__)


class KeysError(Exception):
    """The keys cannot be read; the message says why."""


class _Deadline:
    """Ends a connection when its time is over, whatever that waits for.

    The time of a socket is for each of its operations, and begins again with each byte that arrives.
    """

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._sockets: list[socket.socket] = []
        self._is_over = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()
        if self._is_over:
            raise TimeoutError("the answer takes too long")

    def watch(self, sock: socket.socket) -> None:
        """End this connection too.

        It has a descriptor of its own for that: TLS takes over that of the socket.

        Raises:
            TimeoutError: the time is over.
        """
        with self._lock:
            if self._is_over:
                raise TimeoutError("timed out")
            self._sockets.append(sock.dup())

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            for each in self._sockets:
                with contextlib.suppress(OSError):  # it has ended by itself
                    each.shutdown(socket.SHUT_RDWR)


class _Watched(HTTPConnection):
    """A connection under a deadline, from the moment at which it is there."""

    deadline: _Deadline

    def connect(self) -> None:
        """Connect; with TLS, its handshake comes after this."""
        super().connect()
        self.deadline.watch(self.sock)


class _WatchedTls(HTTPSConnection, _Watched):
    """The same with TLS."""


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Connects by http and by https, under a deadline."""

    def __init__(self, deadline: _Deadline, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._deadline = deadline
        self._context = context

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Open an address of http."""
        return self.do_open(partial(self._connection, _Watched), req)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Open an address of https."""
        return self.do_open(partial(self._connection, _WatchedTls, context=self._context), req)

    def _connection(self, kind: type[_Watched], host: str, **options: Any) -> _Watched:
        connection = kind(host, **options)
        connection.deadline = self._deadline
        return connection


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from the address that the operator names, from no other."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


class JsonWebKeys:
    """The keys at one address, which threads use."""

    def __init__(
        self,
        url: str,
        refresh_seconds: float,
        backoff_seconds: float,
        context: ssl.SSLContext | None = None,
        *,
        patience: float = _SECONDS,
    ) -> None:
        """Keep them of a url that begins with file: or https:.

        Without a context, the authorities of the system are trusted. `patience` is how many seconds a read
        may take, however slowly the answer trickles in.
        """
        self._patience = patience
        self._url = url
        self._context = context
        self._refresh_seconds = refresh_seconds
        self._backoff_seconds = backoff_seconds
        self._lock = threading.Lock()
        self._keys: dict[str | None, PyJWK] = {}
        self._read_at: float | None = None
        """The end of the last try."""

    def read(self) -> None:
        """Read the keys.

        Raises:
            KeysError: they cannot be read; those that are known stay.
        """
        try:
            found = PyJWKSet.from_dict(_checked(json.loads(self._content())))
        except (OSError, ValueError, HTTPException, RecursionError, PyJWTError) as error:
            raise KeysError(f"the keys at {self._url} cannot be read: {error}") from None
        finally:
            self._read_at = time.monotonic()
        self._keys = {key.key_id: key for key in found.keys}

    def find(self, key_id: str | None) -> PyJWK | None:
        """The key of this id, or the only one if a token names none.

        A thread that needs a key which is not known waits while another one reads.
        """
        known = self._known(key_id)
        if self._is_due(known) and self._lock.acquire(blocking=known is None):
            try:
                if self._is_due(self._known(key_id)):
                    self.read()
            except KeysError as error:
                logger.error("Logins by OAUTHBEARER: %s", error)
            finally:
                self._lock.release()
            return self._known(key_id)
        return known

    def _known(self, key_id: str | None) -> PyJWK | None:
        keys = self._keys
        if key_id is None and len(keys) == 1:
            return next(iter(keys.values()))
        return keys.get(key_id)

    def _is_due(self, known: PyJWK | None) -> bool:
        """Whether the keys must be read before `known` is what they have."""
        if self._read_at is None:
            return True
        age = time.monotonic() - self._read_at
        return age >= (self._refresh_seconds if known is not None else self._backoff_seconds)

    def _content(self) -> bytes:
        content: bytes
        parts = urlsplit(self._url)
        if parts.scheme == "file":
            with open(unquote(parts.path), "rb") as file:
                content = file.read(MOST_BYTES + 1)
        else:
            with _Deadline(self._patience) as deadline:
                opener = urllib.request.build_opener(_NoRedirects, _Handler(deadline, self._context))
                with opener.open(self._url, timeout=self._patience) as answer:
                    content = answer.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"they have more than {MOST_BYTES} bytes")
        return content


def _checked(content: Any) -> dict[str, Any]:
    """An object with a list of objects under "keys"; raises ValueError for anything else."""
    keys = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise ValueError('expected an object with a list of "keys"')
    return {"keys": keys}
