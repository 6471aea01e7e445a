"""A small HTTP server for Prometheus and for health checks: GET of a few paths.

It serves strangers as well as Prometheus, so everything has a bound: the connections, the bytes of a request,
the time for it and for reading the answer. A connection beyond the bound is closed at once. Each connection
has one request. The server runs on the broker's event loop, which only parses a line and hands over bytes.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

MOST_CONNECTIONS: Final = 16
MOST_REQUEST_BYTES: Final = 8192

BYTES_AT_ONCE: Final = 256 << 10
"""The bytes that the loop is given at once to send."""

_WEIGHT: Final = re.compile(rb"0(\.[0-9]{0,3})?|1(\.0{0,3})?")

logger = logging.getLogger(__name__)


class Answer(NamedTuple):
    """An answer to a request."""

    status: int
    body: Sequence[bytes]
    """In parts, which are sent one after the other."""
    content_type: str = "text/plain; charset=utf-8"
    encoding: str = ""


Page: TypeAlias = Callable[[bool], Awaitable[Answer]]
"""Answers a request for a path; it is told whether the client takes gzip."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpServer:
    """Serves pages by their paths."""

    answer_seconds: float = 30.0
    """How long an answer may take, with the time in which the client reads it."""

    request_seconds: float = 5.0
    """How long a request may take to arrive."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, listening: socket.socket) -> None:
        """Serve the clients of a socket that listens."""
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=MOST_REQUEST_BYTES)

    @property
    def connections(self) -> int:
        """How many clients are being served."""
        return len(self._tasks)

    async def stop(self) -> None:
        """Close everything at once."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self.request_seconds):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.LimitOverrunError:
                    head = None
            async with asyncio.timeout(self.answer_seconds):
                await self._send(writer, await self._answer(head))
                writer.write_eof()
                await reader.read(1)  # the client closes first, so that it has all
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # the client is slow, or gone
        finally:
            writer.transport.abort()

    async def _answer(self, head: bytes | None) -> Answer:
        if head is None:
            return Answer(431, [b"The request is too long.\n"])
        line, _, fields = head.partition(b"\r\n")
        method, _, rest = line.partition(b" ")
        target, _, version = rest.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            return Answer(400, [b"This port speaks HTTP/1.1.\n"])
        if method != b"GET":
            return Answer(405, [b"Only GET is served.\n"])
        page = self._pages.get(target.partition(b"?")[0].decode("latin-1"))
        if page is None:
            return Answer(404, [f"Only {', '.join(self._pages)} are served.\n".encode()])
        try:
            return await page(_takes_gzip(fields))
        except Exception:
            logger.exception("A request for %s could not be answered", target[:100].decode("latin-1"))
            return Answer(500, [b"The broker's log has the reason.\n"])

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        fields = [
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {sum(map(len, answer.body))}",
            "Connection: close",
        ]
        if answer.encoding:
            fields.append(f"Content-Encoding: {answer.encoding}")
        if answer.status == 405:
            fields.append("Allow: GET")
        writer.write("\r\n".join((*fields, "", "")).encode())
        for part in answer.body:
            view = memoryview(part)
            for start in range(0, len(view), BYTES_AT_ONCE):
                writer.write(view[start : start + BYTES_AT_ONCE])
                await writer.drain()


def _takes_gzip(fields: bytes) -> bool:
    """Whether the client takes gzip, as the header of its request says (RFC 9110, 12.5.3)."""
    weights: dict[bytes, float] = {}
    for line in fields.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip() == b"accept-encoding":
            for each in value.split(b","):
                coding, _, parameter = each.partition(b";")
                weights[coding.strip()] = _weight(parameter)
    return weights.get(b"gzip", weights.get(b"*", 0)) > 0


def _weight(parameter: bytes) -> float:
    """The weight `q=0.5` of an encoding: 1 if there is none, 0 if it makes no sense."""
    if not parameter.strip():
        return 1
    name, _, value = parameter.partition(b"=")
    is_weight = name.strip() == b"q" and _WEIGHT.fullmatch(value.strip()) is not None
    return float(value) if is_weight else 0
