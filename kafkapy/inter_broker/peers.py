"""Connections from this broker to other brokers.

A peer is one connection, which is opened when it is first used and again after it broke. It sends one request
after another, as the channels of Apache Kafka's brokers do. A caller that must not wait for the requests of
others connects for itself.

At the start of a connection, the brokers agree on versions: a request has the highest version that both
brokers know. If the listener demands it, this broker logs in then, and again before the login ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from kafkapy.metadata.image import Broker
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.protocol.types import ApiKey

if TYPE_CHECKING:
    from kafkapy.security.links import LinkSecurity

MAX_FRAME: Final = 1 << 30
"""The most bytes of an answer. A longer one is taken for bytes of another protocol."""

BUDGET: Final = 20_000_000
"""How many values an answer may hold: other brokers are trusted, and serve many partitions."""

CONNECT_SECONDS: Final = 10.0
"""How long it may take to connect (the default of Kafka's socket.connection.setup.timeout.ms)."""

LIFETIME_SHARE: Final = 0.85
"""The share of a login's lifetime after which this broker logs in again.

Kafka's clients do so at 0.85 to 0.95 of it.
"""

_SIZE: Final = struct.Struct(">i")


class PeerError(Exception):
    """The other broker cannot be reached, or did not answer.

    The request may have had its effect.
    """


class PeerAddress(NamedTuple):
    """A broker, and the endpoint by which other brokers reach it."""

    id: int
    host: str
    port: int


def peer_address(broker: Broker, listener: str) -> PeerAddress:
    """Where other brokers reach a broker.

    Raises:
        PeerError: it has no such listener.
    """
    endpoint = broker.endpoints.get(listener)
    if endpoint is None:
        raise PeerError(f"broker {broker.id} has no listener {listener}")
    return PeerAddress(broker.id, endpoint.host, endpoint.port)


class Peer(Protocol):
    """A connection to another broker."""

    @property
    def address(self) -> PeerAddress:
        """The broker's address."""

    async def version(self, api_key: int) -> int:
        """The highest version of an API that both brokers know.

        Raises:
            PeerError: the broker cannot be reached, or does not know the API.
        """

    async def ask(self, request: Any, *, seconds: float) -> Any:
        """Send a request and return the answer.

        `records` in the answer are a writable memoryview of memory that nothing else uses.

        Args:
            seconds: how long it may take, connecting included.

        Raises:
            PeerError: there is no answer.
        """

    def close(self) -> None:
        """Close the connection; requests that wait for answers fail."""


class Peers(Protocol):
    """Connects to other brokers."""

    def connect(self, address: PeerAddress, purpose: str) -> Peer:
        """A new peer.

        `purpose` is a part of the client id, for the other broker's log.
        """


class TcpPeers:
    """Connects by TCP."""

    def __init__(self, node_id: int, security: LinkSecurity | None = None) -> None:
        """`security` is for all connections; without it, they have neither TLS nor a login."""
        self._node_id = node_id
        self._security = security

    def connect(self, address: PeerAddress, purpose: str) -> TcpPeer:
        """A new peer, which connects when it is first used."""
        return TcpPeer(address, f"broker-{self._node_id}-{purpose}", self._security)


class TcpPeer:
    """A connection by TCP."""

    def __init__(self, address: PeerAddress, client_id: str, security: LinkSecurity | None = None) -> None:
        self._address = address
        self._client_id = client_id
        self._security = security
        self._log_in_at: float | None = None
        """When the next login is due, by the loop's clock; None: never."""
        self._turn = asyncio.Lock()
        """Held from a request to its answer."""
        self._stream: _Stream | None = None
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self._closed = False

    @property
    def address(self) -> PeerAddress:
        return self._address

    async def version(self, api_key: int) -> int:
        """The highest version of an API that both brokers know.

        Raises as `Peer.version`.
        """
        async with self._turn:
            await self._connected()
            return self._version(api_key)

    async def ask(self, request: TopMessage, *, seconds: float) -> Any:
        """Send a request and return the answer.

        Raises as `Peer.ask`.
        """
        try:
            async with asyncio.timeout(seconds), self._turn:
                try:
                    stream = await self._connected()
                    return await self._exchange_newest(stream, request)
                except BaseException:
                    # An answer that comes later must not be taken for that of the next request.
                    self._disconnect()
                    raise
        except TimeoutError:
            raise PeerError(f"{self._place} has not answered within {seconds:.1f} s") from None

    def close(self) -> None:
        """Close the connection; requests that wait for answers fail."""
        self._closed = True
        self._disconnect()

    @property
    def _place(self) -> str:
        return f"broker {self._address.id} at {self._address.host}:{self._address.port}"

    async def _connected(self) -> _Stream:
        """The connection, opened if need be."""
        if self._closed:
            raise PeerError(f"the connection to {self._place} is closed")
        stream = self._stream
        if stream is not None and (self._log_in_at is None or self._now() < self._log_in_at):
            return stream
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if stream is None:
                    self._stream = await self._connect()
                else:
                    await self._log_in(stream)
        except (OSError, TimeoutError) as error:
            why = error if str(error) else f"no answer within {CONNECT_SECONDS:.0f} s"
            raise PeerError(f"{self._place} cannot be reached: {why}") from None
        assert self._stream is not None
        return self._stream

    async def _connect(self) -> _Stream:
        loop = asyncio.get_running_loop()
        host, port, security = self._address.host, self._address.port, self._security
        if security is None or security.context is None:
            _, stream = await loop.create_connection(_Stream, host, port)
        else:
            _, stream = await loop.create_connection(
                _Stream, host, port, ssl=security.context, server_hostname=host
            )
        try:
            answer = await self._exchange(stream, ApiVersionsRequest(), 0)
            assert isinstance(answer, ApiVersionsResponse)
            self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            await self._log_in(stream)
        except BaseException:
            stream.abort()
            raise
        return stream

    async def _log_in(self, stream: _Stream) -> None:
        """Log in, for the first time or again, if the listener demands it.

        Raises:
            PeerError: the other broker does not let this one in.
        """
        if self._security is None or self._security.login is None:
            return
        from kafkapy.inter_broker.login import log_in  # few brokers need its code

        ask = partial(self._exchange_newest, stream)
        lifetime_ms = await log_in(self._security.login, self._address.host, ask, self._place)
        self._log_in_at = self._now() + LIFETIME_SHARE * lifetime_ms / 1000 if lifetime_ms else None

    async def _exchange_newest(self, stream: _Stream, request: TopMessage) -> Any:
        assert request.KEY is not None
        return await self._exchange(stream, request, self._version(request.KEY))

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _version(self, api_key: int) -> int:
        theirs, ours = self._versions.get(api_key), request_class(api_key).VERSIONS
        version = -1 if theirs is None else min(theirs[1], ours[1])
        if theirs is None or version < max(theirs[0], ours[0]):
            raise PeerError(f"{self._place} and this broker share no version of {ApiKey(api_key).name}")
        return version

    async def _exchange(self, stream: _Stream, request: TopMessage, version: int) -> TopMessage:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = await stream.exchange(encode_request(request, version, self._correlation_id, self._client_id))
        if frame is None:
            raise PeerError(f"{self._place} has closed the connection")
        try:
            assert request.KEY is not None
            correlation_id, response = decode_response(request.KEY, version, frame, budget=BUDGET)
        except DecodeError as error:
            raise PeerError(f"the answer of {self._place} cannot be read: {error}") from None
        if correlation_id != self._correlation_id:
            raise PeerError(f"{self._place} has answered another request")
        return response

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.abort()
            self._stream = None


class _Stream(asyncio.BufferedProtocol):
    """The bytes of a connection, received into one buffer for each answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._size = bytearray(_SIZE.size)
        self._frame: bytearray | None = None
        """The answer that is being received; None before its size is known."""
        self._received = 0
        self._answer: asyncio.Future[memoryview | None] | None = None
        self._is_lost = False

    async def exchange(self, request: bytes) -> memoryview | None:
        """Send a frame and return the answer without its size; None if the connection is lost."""
        if self._transport is None or self._is_lost:
            return None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        sock = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._size if self._frame is None else self._frame)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        self._received += nbytes
        if self._frame is None:
            if self._received < _SIZE.size:
                return
            (size,) = _SIZE.unpack(self._size)
            if not 0 < size <= MAX_FRAME:
                self.abort()
                return
            self._frame, self._received = bytearray(size), 0
        elif self._received == len(self._frame):
            frame, self._frame, self._received = self._frame, None, 0
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(memoryview(frame))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)
