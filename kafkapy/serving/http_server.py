"""Uvicorn in a thread of its own, which serves one application on one socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from kafkapy.errors import UserError

_BACKLOG: Final = 128
_MOST_REQUESTS: Final = 256
"""At once; a client beyond gets status 503."""
_PATIENCE_SECONDS: Final = 60.0
"""A request waits for the cluster for 10 seconds a few times at most."""
_CLOSING_SECONDS: Final = 5


class HttpServer:
    """Listens from the start on; clients wait in the socket's queue until `serve`.

    Args:
        name: that of its thread.
        patience: how many seconds a connection may take to send a request and read the answer.

    Raises:
        UserError: the address cannot be used.
    """

    def __init__(self, host: str, port: int, *, name: str, patience: float = _PATIENCE_SECONDS) -> None:
        self._name, self._patience = name, patience
        self._socket = _bound(host, port)
        bound_host, bound_port = self._socket.getsockname()[:2]
        self.url: Final = f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"
        self._running: tuple[threading.Thread, asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def serve(self, application: ASGIApp) -> None:
        """Serve until `stop`; raises what a start failed with."""
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        config = uvicorn.Config(
            application,
            http=partial(_Connection, self._patience),  # type: ignore[arg-type]
            lifespan="off",
            log_config=None,
            log_level="warning",  # that it starts and ends is no news in the log of a test
            access_log=False,
            server_header=False,
            date_header=False,
            limit_concurrency=_MOST_REQUESTS,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )

        def run() -> None:
            try:
                asyncio.run(_Server(config, started).serve(sockets=[self._socket]))
            except BaseException as error:
                if started.done():
                    raise
                started.set_exception(error)

        thread = threading.Thread(target=run, name=self._name, daemon=True)
        thread.start()
        try:
            self._running = (thread, *started.result())
        except BaseException:
            self._socket.close()
            raise

    def stop(self) -> None:
        """End what is under way, and close the socket."""
        if self._running is not None:
            thread, loop, stopping = self._running
            loop.call_soon_threadsafe(stopping.set)
            thread.join()
            self._running = None
        self._socket.close()


class _Connection(H11Protocol):
    """Is closed if no request has ended for `patience` seconds.

    Uvicorn gives a time only to connections that wait for their next request. Those that send nothing or
    slowly, or read slowly, would count among the requests for ever.
    """

    def __init__(self, patience: float, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._patience = patience
        self._ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end_later()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._end_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_end()
        super().connection_lost(exc)

    def _end_later(self) -> None:
        self._forget_end()
        if not self.transport.is_closing():
            self._ending = self.loop.call_later(self._patience, self.transport.abort)

    def _forget_end(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None


class _Server(uvicorn.Server):
    """Waits for its end, where uvicorn looks ten times a second whether it is to end."""

    def __init__(
        self, config: uvicorn.Config, started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
    ) -> None:
        super().__init__(config)
        self._told = started

    async def main_loop(self) -> None:
        stopping = asyncio.Event()
        self._told.set_result((asyncio.get_running_loop(), stopping))
        await stopping.wait()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol: asyncio sets TCP_NODELAY on no other connections, and answers would take 40 ms.
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UserError(f"cannot listen on {host}: {error.strerror or error}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise UserError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listening
