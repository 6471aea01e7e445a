"""The controller's channels: one to each live broker, with a queue of requests.

A channel sends one request after another, in order. A request is repeated until it is answered: brokers
refuse what is out of date, by epochs. It ends when its broker is gone, has started anew or this broker is not
the controller any more; a broker that comes back is told everything from the start. The controller's own
broker is called directly.

A broker answers a StopReplica when its deletions are on disk, for which it writes the checkpoints of all its
logs. So those that wait are sent as one, after the UpdateMetadata between them, which they do not depend on.
Otherwise the deletion of 8,000 partitions, which the controller begins for 100 at once, would write all
checkpoints 80 times.

Source: Kafka's ControllerChannelManager and RequestSendThread.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from kafkapy.controller.request_batch import ControlRequest
from kafkapy.inter_broker.peers import Peer, PeerError, Peers, peer_address
from kafkapy.metadata.image import Broker
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

logger = logging.getLogger(__name__)

BACKOFF_SECONDS: Final = 0.1
"""The pause after a broker could not be asked."""

STOPPED_AT_ONCE: Final = 2_000
"""About how many partitions one StopReplica names."""

Answered = Callable[[Broker, ControlRequest, Any], None]
"""Called with the broker, the request and the response."""


class OwnBroker(Protocol):
    """The requests of a controller to its own broker (`kafkapy.replicas.controller_requests`)."""

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse: ...

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse: ...

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse: ...


class Channels:
    """The channels to all live brokers."""

    def __init__(
        self,
        own_id: int,
        own: OwnBroker,
        peers: Peers,
        *,
        listener: str,
        seconds: float,
        answered: Answered,
    ) -> None:
        """An attempt may take `seconds`; `listener` is the brokers' listener for each other."""
        self._own_id = own_id
        self._own = own
        self._peers = peers
        self._listener = listener
        self._seconds = seconds
        self._answered = answered
        self._channels: dict[int, _Channel] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def add(self, broker: Broker) -> None:
        """Open a channel to a broker that came."""
        if broker.id == self._own_id:
            self._channels[broker.id] = _OwnChannel(broker, self._answered, self._own)
            return
        try:
            address = peer_address(broker, self._listener)
        except PeerError as error:
            logger.error("the controller cannot tell a broker what it leads: %s", error)
            return
        peer = self._peers.connect(address, "controller")
        self._channels[broker.id] = _PeerChannel(broker, self._answered, peer, self._seconds)

    def remove(self, broker_id: int) -> None:
        """Close the channel to a broker that is gone; what it has not been told is dropped."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            self._ending.add(channel.task)
            channel.task.add_done_callback(self._ending.discard)
            channel.end()

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Queue a request; without a channel it is dropped."""
        channel = self._channels.get(broker_id)
        if channel is not None:
            channel.send(request)

    def end(self) -> None:
        """Close all channels."""
        for broker_id in list(self._channels):
            self.remove(broker_id)

    async def ended(self) -> None:
        """Wait until no request is being sent any more."""
        await asyncio.gather(*self._ending, return_exceptions=True)


class _Channel(ABC):
    """The queue for one broker, and the task that sends what is in it."""

    def __init__(self, broker: Broker, answered: Answered) -> None:
        self._broker = broker
        self._answered = answered
        self._queue: deque[ControlRequest] = deque()
        self._filled = asyncio.Event()
        self.task = asyncio.create_task(self._run(), name=f"kafkapy-controller-to-{broker.id}")

    def send(self, request: ControlRequest) -> None:
        self._queue.append(request)
        self._filled.set()

    def end(self) -> None:
        self.task.cancel()

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._queue:
                request = self._queue.popleft()
                if isinstance(request, StopReplicaRequest):
                    await self._stop([request])
                else:
                    self._answered(self._broker, request, await self._ask(request))

    async def _stop(self, requests: list[StopReplicaRequest]) -> None:
        """Send a StopReplica together with those that wait now, and before them what lies between."""
        count = _count(requests[0])
        for _ in range(len(self._queue)):
            request = self._queue[0]
            if isinstance(request, LeaderAndIsrRequest) or count >= STOPPED_AT_ONCE:
                break
            self._queue.popleft()
            if isinstance(request, StopReplicaRequest):
                requests.append(request)
                count += _count(request)
            else:
                self._answered(self._broker, request, await self._ask(request))
        response = await self._ask(_together(requests))
        errors = {(each.topic_name, each.partition_index): each for each in response.partition_errors}
        for request in requests:
            named = [key for key in _named(request) if key in errors]
            part = StopReplicaResponse(
                error_code=response.error_code, partition_errors=[errors[key] for key in named]
            )
            self._answered(self._broker, request, part)

    @abstractmethod
    async def _ask(self, request: ControlRequest) -> Any:
        """Ask until there is an answer."""


class _OwnChannel(_Channel):
    """The channel to the controller's own broker."""

    def __init__(self, broker: Broker, answered: Answered, own: OwnBroker) -> None:
        super().__init__(broker, answered)
        self._own = own

    async def _ask(self, request: ControlRequest) -> Any:
        try:
            if isinstance(request, LeaderAndIsrRequest):
                return await self._own.leader_and_isr(request)
            if isinstance(request, StopReplicaRequest):
                return await self._own.stop_replica(request)
            return await self._own.update_metadata(request)
        except Exception:
            # Another broker would answer the same.
            logger.exception("this broker cannot do what its controller asks")
            assert request.KEY is not None
            response: Any = response_class(request.KEY)()
            response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            return response


class _PeerChannel(_Channel):
    """The channel to another broker."""

    def __init__(self, broker: Broker, answered: Answered, peer: Peer, seconds: float) -> None:
        super().__init__(broker, answered)
        self._peer = peer
        self._seconds = seconds

    def end(self) -> None:
        super().end()
        self._peer.close()

    async def _ask(self, request: ControlRequest) -> Any:
        is_told = False
        while True:
            try:
                return await self._peer.ask(request, seconds=self._seconds)
            except PeerError as error:
                if not is_told:
                    logger.warning("the controller cannot reach broker %d: %s", self._broker.id, error)
                is_told = True
            except Exception:
                # The next attempt may succeed, and the broker must not wait for ever for what comes after.
                if not is_told:
                    logger.exception("the controller cannot ask broker %d", self._broker.id)
                is_told = True
            await asyncio.sleep(BACKOFF_SECONDS)


def _count(request: StopReplicaRequest) -> int:
    """The partitions of a request."""
    return sum(len(topic.partition_states) for topic in request.topic_states)


def _named(request: StopReplicaRequest) -> Iterator[tuple[str, int]]:
    """The partitions of a request, each with the name of its topic."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state.partition_index


def _together(requests: Sequence[StopReplicaRequest]) -> StopReplicaRequest:
    """One request for all, which the same controller sends to the same broker."""
    first = requests[0]
    return StopReplicaRequest(
        controller_id=first.controller_id,
        controller_epoch=first.controller_epoch,
        broker_epoch=first.broker_epoch,
        topic_states=[topic for each in requests for topic in each.topic_states],
    )
