"""Requests to brokers by their ids: to others by connections, and to this one without."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kafkapy.inter_broker.inter_broker import InterBroker
from kafkapy.inter_broker.loopback import LoopbackConnection, LoopbackPeer
from kafkapy.inter_broker.peers import PeerAddress, PeerError
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import Broker, MetadataImage
from kafkapy.metadata.znodes import Endpoint
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafkapy.protocol.types import ApiKey

HIGHEST = 2
"""The highest version of each API that broker 1 serves."""


class FakePeer:
    def __init__(self, address: PeerAddress, purpose: str) -> None:
        self.address = address
        self.purpose = purpose
        self.is_closed = False

    async def version(self, api_key: int) -> int:
        return 1

    async def ask(self, request: Any, *, seconds: float) -> Any:
        return f"{self.address.port} {self.purpose}"

    def close(self) -> None:
        self.is_closed = True


class FakePeers:
    def __init__(self) -> None:
        self.made: list[FakePeer] = []

    def connect(self, address: PeerAddress, purpose: str) -> FakePeer:
        self.made.append(FakePeer(address, purpose))
        return self.made[-1]


def brokers(*ports: int) -> dict[int, Broker]:
    """Brokers 2, 3 … at these ports."""
    return {
        number: Broker(number, None, {"PLAINTEXT": Endpoint("PLAINTEXT", "localhost", port, "PLAINTEXT")})
        for number, port in enumerate(ports, 2)
    }


class OwnDispatcher:
    """The dispatcher of broker 1, which serves two APIs and has one answer."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.asked: list[tuple[LoopbackConnection, RequestHeader]] = []

    def max_version(self, api_key: int) -> int:
        return HIGHEST

    def endpoint(self, connection: LoopbackConnection, header: RequestHeader) -> object | None:
        self.asked.append((connection, header))
        return object() if header.api_key in (ApiKey.HEARTBEAT, ApiKey.WRITE_TXN_MARKERS) else None

    def refusal(self, header: RequestHeader) -> None:
        return None

    def call(self, connection: Any, header: RequestHeader, endpoint: object, request: Any) -> Any:
        return self.answer

    def failed(self, connection: Any, header: RequestHeader, endpoint: object, error: Exception) -> Any:
        assert isinstance(error, KafkaError)
        return HeartbeatResponse(error_code=error.code)


class World:
    def __init__(self, *ports: int) -> None:
        self.cache = MetadataCache()
        self.cache.publish(MetadataImage(brokers=brokers(*ports)))
        self.peers = FakePeers()
        self.own = OwnDispatcher()
        loopback = LoopbackPeer(self.own, LoopbackConnection(1, "PLAINTEXT"))
        self.inter_broker = InterBroker(
            self.cache, loopback, node_id=1, listener="PLAINTEXT", peers=self.peers
        )

    async def ask(self, broker: int, request: TopMessage, seconds: float = 1.0) -> Any:
        return await self.inter_broker.ask(broker, request, seconds=seconds)


async def test_a_broker_has_a_connection_for_each_api() -> None:
    world = World(1002, 1003)
    assert await world.ask(2, WriteTxnMarkersRequest()) == "1002 write-txn-markers"
    assert await world.ask(2, HeartbeatRequest()) == "1002 heartbeat"
    assert await world.ask(3, HeartbeatRequest()) == "1003 heartbeat"
    assert await world.ask(3, HeartbeatRequest()) == "1003 heartbeat"
    assert len(world.peers.made) == 3


async def test_whoever_wants_more_connections_numbers_them() -> None:
    world = World(1002)
    for number, name in ((0, "heartbeat"), (2, "heartbeat-2"), (2, "heartbeat-2"), (0, "heartbeat")):
        answer = await world.inter_broker.ask(2, HeartbeatRequest(), number, seconds=1.0)
        assert answer == f"1002 {name}"
    assert len(world.peers.made) == 2
    world.cache.publish(replace(world.cache.image, brokers={}))
    assert [peer.is_closed for peer in world.peers.made] == [True, True]


async def test_a_broker_answers_itself_without_a_connection() -> None:
    world = World()
    world.own.answer = WriteTxnMarkersResponse()
    assert await world.ask(1, WriteTxnMarkersRequest()) is world.own.answer
    assert world.peers.made == []


async def test_the_dispatcher_sees_that_the_broker_asks_itself_in_the_highest_version() -> None:
    world = World()
    world.own.answer = HeartbeatResponse()
    await world.ask(1, HeartbeatRequest())
    ((connection, header),) = world.own.asked
    assert connection.is_this_broker
    assert (connection.principal, connection.listener.name) == ("Broker:1", "PLAINTEXT")
    assert (header.api_key, header.api_version) == (ApiKey.HEARTBEAT, HIGHEST)


async def test_an_own_answer_may_take_its_time() -> None:
    world = World()

    async def later() -> HeartbeatResponse:
        await asyncio.sleep(0)
        return HeartbeatResponse()

    world.own.answer = later()
    assert await world.ask(1, HeartbeatRequest()) == HeartbeatResponse()


async def test_an_own_answer_that_takes_too_long_is_none() -> None:
    world = World()
    world.own.answer = asyncio.get_running_loop().create_future()
    with pytest.raises(PeerError, match="has not answered"):
        await world.ask(1, HeartbeatRequest(), seconds=0.001)


async def test_an_own_request_that_fails_gets_the_answer_to_its_failure() -> None:
    world = World()

    async def fail() -> None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    world.own.answer = fail()
    answer = await world.ask(1, HeartbeatRequest())
    assert answer == HeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)


async def test_an_own_request_without_an_answer_fails_as_another_broker_s() -> None:
    world = World()
    world.own.answer = None
    with pytest.raises(PeerError, match="gives no answer"):
        await world.ask(1, HeartbeatRequest())


async def test_an_own_request_that_is_not_served_fails() -> None:
    world = World()
    with pytest.raises(PeerError, match="does not serve API key 22"):
        await world.ask(1, InitProducerIdRequest())


async def test_a_broker_that_is_gone_or_has_moved_loses_its_connections() -> None:
    world = World(1002, 1003)
    for broker in (2, 3):
        await world.ask(broker, HeartbeatRequest())
    world.cache.publish(replace(world.cache.image, brokers=brokers(2002)))
    assert [peer.is_closed for peer in world.peers.made] == [True, True]
    assert await world.ask(2, HeartbeatRequest()) == "2002 heartbeat"
    with pytest.raises(PeerError, match="broker 3 is not there"):
        await world.ask(3, HeartbeatRequest())


async def test_a_broker_that_stays_keeps_its_connections() -> None:
    world = World(1002)
    await world.ask(2, HeartbeatRequest())
    world.cache.publish(replace(world.cache.image, brokers=brokers(1002, 1003)))
    assert [peer.is_closed for peer in world.peers.made] == [False]
