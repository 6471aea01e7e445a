"""One end of a simulated connection as a client's protocol sees it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkapy.virtual.network import End

END = b""
"""Is sent after the last bytes."""


class SimulatedTransport(asyncio.Transport):
    """A transport of asyncio; what is written leaves at once."""

    def __init__(self, end: End, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._end = end
        self._protocol = protocol
        self._is_lost = self._is_paused = False
        end.arrives = self._arrived

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        known = {"socket": _NoSocket(), "peername": self._end.other.address, "sockname": self._end.address}
        return known.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def write(self, data: Any) -> None:
        try:
            self._end.send(bytes(data))
        except ConnectionError:
            self.abort()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing: what is written leaves at once."""

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._end.loop.call_soon(self._arrived)

    def is_reading(self) -> bool:
        return not self._is_paused

    def abort(self) -> None:
        self._end.close()
        self._lose(None)

    def close(self) -> None:
        self.abort()

    def is_closing(self) -> bool:
        return self._end.is_closed

    def _lose(self, error: ConnectionError | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._end.loop.call_soon(self._protocol.connection_lost, error)

    def _arrived(self) -> None:
        if self._end.is_reset:
            self._lose(ConnectionResetError("the connection was reset"))
        while self._end.received and not self._end.is_closed and not self._is_paused:
            data = self._end.received.popleft()
            if data != END:
                self._give(data)
            elif not self._protocol.eof_received():  # type: ignore[attr-defined]
                self.abort()

    def _give(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)
            return
        while data:
            room = memoryview(protocol.get_buffer(-1))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            protocol.buffer_updated(count)
            data = data[count:]


class _NoSocket:
    def setsockopt(self, *_: object) -> None:
        """Nothing."""
