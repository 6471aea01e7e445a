"""A producer with several requests in flight, as Java's and librdkafka's have.

It sends batches without waiting for the answers of the ones before. After an error, or without an answer, it
connects anew and sends again what is not acknowledged, in order. What it sent before may still arrive later.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from typing import Final

from kafkapy.inter_broker.peers import PeerAddress
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from kafkapy.protocol.types import ApiKey
from kafkapy.virtual.world import World
from tests.promises.history import Partition
from tests.simulation.clients import BACKOFF, PAUSE, TIMEOUT, Batch, SimulatedProducer
from tests.simulation.witness import Witness

IN_FLIGHT: Final = 5
"""What max.in.flight.requests.per.connection may be at most: a log remembers so many batches."""

_SIZE: Final = struct.Struct(">i")


class PipelinedProducer(SimulatedProducer):
    """An idempotent producer to one partition."""

    def __init__(
        self,
        world: World,
        name: str,
        addresses: Mapping[int, PeerAddress],
        witness: Witness,
        partition: Partition,
    ) -> None:
        super().__init__(world, name, addresses, witness, [partition])
        self._partition = partition
        self._unanswered: deque[Batch] = deque()
        self._until = 0.0

    @property
    def _has_more(self) -> bool:
        return self.world.now < self._until

    async def run(self, until: float) -> None:
        """Send batches until some time, each until it is acknowledged."""
        self._until = until
        await self._begin()
        while self._has_more or self._unanswered:
            leader = await self.leader_of(self._partition)
            try:
                _, answers = await asyncio.wait_for(
                    asyncio.get_running_loop().create_connection(_Answers, *self._addresses[leader][1:]),
                    TIMEOUT,
                )
            except (OSError, TimeoutError):
                answers = None
            if answers is not None:
                await self._send_by(answers, leader)
                answers.close()
            self.forget_leader(self._partition)
            await asyncio.sleep(BACKOFF)

    async def _send_by(self, answers: _Answers, leader: int) -> None:
        """Send and receive until the connection is of no more use, or nothing is left."""
        by_leader = self._witness.is_led_by(leader, self._partition)
        sent = 0
        while self._has_more or self._unanswered:
            while sent < IN_FLIGHT and (sent < len(self._unanswered) or self._has_more):
                if sent == len(self._unanswered):
                    self._unanswered.append(self.new_batch(self._partition))
                answers.send(self.produce_request(self._unanswered[sent]), sent, self.name)
                sent += 1
            told = await answers.next()
            if told is None or told.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                if told is not None:
                    self.require_retriable(self._unanswered[0], told.error_code, by_leader=by_leader)
                return
            batch = self._unanswered.popleft()
            sent -= 1
            if told.error_code == ErrorCode.NONE:
                self.acknowledged(batch, told.base_offset)
            if self.world.chance.random() < 0.5:
                await asyncio.sleep(self.world.chance.random() * PAUSE)


class _Answers(asyncio.BufferedProtocol):
    """A connection on which answers come in the order of requests."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(1 << 16)
        self._received = bytearray()
        self._answers: asyncio.Queue[PartitionProduceResponse | None] = asyncio.Queue()

    def send(self, request: ProduceRequest, correlation_id: int, client_id: str) -> None:
        if self._transport is not None:
            version = ProduceRequest.VERSIONS[1]
            self._transport.write(encode_request(request, version, correlation_id, client_id))

    async def next(self) -> PartitionProduceResponse | None:
        """The next answer; None if the connection is lost or there is no answer in time."""
        try:
            return await asyncio.wait_for(self._answers.get(), TIMEOUT)
        except TimeoutError:
            return None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self._received += self._buffer[:nbytes]
        while len(self._received) >= 4:
            (size,) = _SIZE.unpack_from(self._received)
            if len(self._received) < 4 + size:
                return
            frame = memoryview(bytes(self._received[4 : 4 + size]))
            del self._received[: 4 + size]
            _, answer = decode_response(ApiKey.PRODUCE, ProduceRequest.VERSIONS[1], frame)
            assert isinstance(answer, ProduceResponse)
            self._answers.put_nowait(answer.responses[0].partition_responses[0])

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._answers.put_nowait(None)
