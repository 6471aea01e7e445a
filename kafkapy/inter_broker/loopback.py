"""Requests of this broker to itself.

They go to the dispatcher as those of clients do, but as objects: nothing is encoded, and there is no socket.
So an API has one entry, its handler, whether this broker asks or another one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kafkapy.configs.listeners import Listener
from kafkapy.inter_broker.peers import PeerError
from kafkapy.loop.waiters import Watch
from kafkapy.network.answers import Pipelined, settled
from kafkapy.network.dispatcher import Dispatcher
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.message import TopMessage

LOOPBACK_HOST: Final = "127.0.0.1"

logger = logging.getLogger(__name__)


class LoopbackConnection:
    """Stands for the connection of this broker to itself, which is always open."""

    is_this_broker: Final = True
    by_token: Final = False
    login: Final = None
    peer_host: Final = LOOPBACK_HOST
    peer_port: Final = 0
    local_host: Final = LOOPBACK_HOST

    def __init__(self, node_id: int, listener: str) -> None:
        """`listener` is the listener for other brokers."""
        self.listener = Listener(listener, LOOPBACK_HOST, 0)
        self.principal = f"Broker:{node_id}"
        self.validation_paid_at = 0.0
        self.software: tuple[str, str] | None = None

    def __str__(self) -> str:
        return "this broker"

    def keep_frame(self) -> None:
        """Do nothing: there is no frame."""

    def charge(self, values: int) -> bool:
        """Do nothing: the broker asks itself for little at once, and reads it."""
        return True

    def when_closed(self, call: Callable[[], object]) -> None:
        """Do nothing: it lives as long as the broker."""

    def close(self, why: str | None = None, *, level: int = logging.WARNING) -> None:
        """Log why a request has no answer; the next one may have one."""
        if why is not None:
            logger.log(level, "A request of %s to itself has no answer: %.300s", self, why)


class LoopbackPeer:
    """This broker, as the peer of itself."""

    def __init__(self, dispatcher: Dispatcher, connection: LoopbackConnection) -> None:
        self.dispatcher = dispatcher
        self._connection = connection

    async def ask(self, request: TopMessage, *, seconds: float) -> Any:
        """Have a request answered, in the highest version that is served; return the answer.

        It fails as a request to another broker does.

        Raises:
            PeerError: there is no answer, or none within `seconds`. The request may have had its effect.
        """
        assert request.KEY is not None
        dispatcher, connection = self.dispatcher, self._connection
        version = dispatcher.max_version(request.KEY)
        header = RequestHeader(request.KEY, version, 0, connection.principal, arrived_at=time.monotonic())
        endpoint = dispatcher.endpoint(connection, header)
        if endpoint is None:
            raise PeerError(f"this broker does not serve API key {request.KEY}")
        answer = dispatcher.call(connection, header, endpoint, request)
        if isinstance(answer, Awaitable | Pipelined | Watch):
            try:
                async with asyncio.timeout(seconds):
                    answer = await settled(answer)
            except TimeoutError:
                raise PeerError(f"this broker has not answered within {seconds:.1f} s") from None
            except Exception as error:
                answer = dispatcher.failed(connection, header, endpoint, error)
        if answer is None:
            raise PeerError("this broker gives no answer")
        return answer
