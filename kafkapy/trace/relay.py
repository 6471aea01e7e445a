"""A proxy between clients and the brokers of a cluster, which shows what each says.

It listens once for each broker of the cluster. Whenever an answer tells the address of a broker, the client
gets the address of that broker's listener instead, on the host by which it reached the proxy. All other bytes
pass unchanged, those that cannot be decoded too.

A frame is passed on when it is complete. Each side is read only as fast as the other one reads: a connection
holds one frame a direction, and the requests that wait for an answer. Frames of more than MOST_KEPT bytes
pass in pieces and are not decoded. A side that closes its half ends that direction only.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from itertools import count
from typing import Final

from kafkapy.configs.listeners import format_address
from kafkapy.protocol import codec
from kafkapy.protocol.errors import DecodeError, EncodeError
from kafkapy.protocol.frames import decode_response, response_frame
from kafkapy.trace.addresses import may_have_addresses, with_addresses
from kafkapy.trace.conversation import Conversation
from kafkapy.trace.exchange import BUDGET, CLOSED, CONNECTED, Exchange

MOST_KEPT: Final = 100 << 20
"""The largest frame that is decoded: Apache Kafka's default of socket.request.max.bytes."""

_PIECE: Final = 1 << 16
_LIMIT: Final = 1 << 18
_TLS: Final = b"\x16\x03"
"""How every connection with TLS begins."""

Address = tuple[str, int]
Sink = Callable[[Exchange], None]


class Relay:
    """Listens for clients of a cluster; `sink` gets each exchange with its answer."""

    def __init__(self, listen: Address, to: Address, sink: Sink) -> None:
        self._listen, self._to, self._sink = listen, to, sink
        self._servers: dict[Address, asyncio.Server] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._numbers = count(1)
        self._opening = asyncio.Lock()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the error of a sink, such as a full disk."""

    async def start(self) -> str:
        """Listen for the broker that clients ask first; returns the address.

        Raises:
            OSError: the address cannot be taken.
        """
        return format_address(self._listen[0], await self._open(self._to, self._listen[1]))

    async def stop(self) -> None:
        """Close all listeners and connections."""
        for server in self._servers.values():
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def port_for(self, broker: Address) -> int:
        """The port that leads to a broker; it is opened when the broker is first told of.

        Raises:
            OSError: no port can be opened.
        """
        async with self._opening:
            server = self._servers.get(broker)
            return _port_of(server) if server is not None else await self._open(broker, 0)

    def tell(self, exchange: Exchange) -> None:
        """Give an exchange to the sink."""
        if self.failed.done():
            return
        try:
            self._sink(exchange)
        except Exception as error:
            self.failed.set_exception(error)

    async def _open(self, broker: Address, port: int) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await _Connection(self, next(self._numbers), broker, reader, writer).serve()
            except asyncio.CancelledError:
                pass  # the relay stops; asyncio would report the end of its task as an error
            finally:
                self._connections.discard(task)

        server = await asyncio.start_server(accept, self._listen[0], port, limit=_LIMIT)
        self._servers[broker] = server
        return _port_of(server)


class _Connection:
    """One client's connection, and the one to its broker."""

    def __init__(
        self,
        relay: Relay,
        number: int,
        broker: Address,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._relay, self._broker = relay, broker
        self._reader, self._writer = reader, writer
        self._host: str = writer.get_extra_info("sockname")[0]
        peer: Address = writer.get_extra_info("peername") or ("-", 0)
        self._conversation = Conversation(number, format_address(*peer[:2]), format_address(*broker))
        self._is_opaque = False
        """Whether it cannot be decoded any more, which is told once."""

    async def serve(self) -> None:
        """Pass on both directions until both have ended."""
        try:
            reader, writer = await asyncio.open_connection(*self._broker, limit=_LIMIT)
        except OSError as error:
            self._tell(f"the broker cannot be reached: {_reason(error)}")
            self._writer.close()
            return
        self._tell(CONNECTED)
        directions = [
            asyncio.ensure_future(self._pump(self._reader, writer, "client")),
            asyncio.ensure_future(self._pump(reader, self._writer, "broker")),
        ]
        try:
            await asyncio.gather(*directions)
        except OSError as error:
            self._tell(f"the connection broke: {_reason(error)}")
        finally:
            for direction in directions:
                direction.cancel()
            for each in (writer, self._writer):
                each.close()
            for exchange in self._conversation.ended():
                self._relay.tell(exchange)
            self._tell(CLOSED)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: str) -> None:
        """Pass on one direction, frame by frame, until its sender ends it."""
        while True:
            head = b""
            try:
                head = await reader.readexactly(4)
                size = int.from_bytes(head, "big", signed=True)
                if self._is_opaque or size < 0 or head[:2] == _TLS:
                    self._cannot_decode(side, head)
                    writer.write(head)
                    await _pass(reader, writer, None)
                    break
                if size > MOST_KEPT:
                    self._tell(f"a frame of {size} bytes of the {side} passes undecoded")
                    writer.write(head)
                    await _pass(reader, writer, size)
                    continue
                frame = await reader.readexactly(size)
            except asyncio.IncompleteReadError as error:
                if head or error.partial:
                    self._tell(f"the {side} ended within a frame")
                    writer.write(head + error.partial)
                break
            if side == "client":
                self._request(head, frame, writer)
            else:
                await self._response(head, frame, writer)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    def _request(self, head: bytes, frame: bytes, writer: asyncio.StreamWriter) -> None:
        sent = time.time()
        writer.write(head + frame)
        done = self._conversation.requested(frame, sent)
        if done is not None:
            self._relay.tell(done)

    async def _response(self, head: bytes, frame: bytes, writer: asyncio.StreamWriter) -> None:
        passed, exchange = self._conversation.answered(frame, time.time())
        for each in passed:
            self._relay.tell(each)
        sent = head + frame
        if exchange is not None and exchange.header and may_have_addresses(exchange.header.api_key):
            sent = await self._with_own_addresses(exchange) or sent
        writer.write(sent)
        if exchange is not None:
            self._relay.tell(exchange)
        elif not self._conversation.sends_tokens:
            self._tell(f"an answer of {len(frame)} bytes that no request waits for")

    async def _with_own_addresses(self, exchange: Exchange) -> bytes | None:
        """The answer's frame with addresses of the proxy; None if none are found in it."""
        header, told = exchange.header, exchange.response_message
        assert header is not None
        assert exchange.response is not None
        key, version = header.api_key, header.api_version
        if told is None or not any(True for _ in with_addresses(key, told)):
            return None
        try:
            _, answer = decode_response(key, version, exchange.response, budget=BUDGET)
            for place in with_addresses(key, answer):
                place.port = await self._relay.port_for((place.host, place.port))
                place.host = self._host
            return response_frame(key, version, header.correlation_id, codec.encode(answer, version))
        except (OSError, DecodeError, EncodeError) as error:
            self._tell(f"the client leaves the proxy: {error}")
            return None

    def _cannot_decode(self, side: str, head: bytes) -> None:
        if not self._is_opaque:
            what = "speaks TLS" if head[:2] == _TLS else "sends what is no frame"
            self._tell(f"the {side} {what}: the rest of the connection passes undecoded")
            self._is_opaque = True

    def _tell(self, text: str) -> None:
        self._relay.tell(self._conversation.event(text, time.time()))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, nbytes: int | None) -> None:
    """Pass on so many bytes in pieces, or all up to the end."""
    while nbytes is None or nbytes > 0:
        piece = await reader.read(_PIECE if nbytes is None else min(_PIECE, nbytes))
        if not piece:
            if nbytes is not None:
                raise asyncio.IncompleteReadError(b"", nbytes)
            return
        writer.write(piece)
        await writer.drain()
        if nbytes is not None:
            nbytes -= len(piece)


def _port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
