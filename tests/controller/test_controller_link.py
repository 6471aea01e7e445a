"""A broker asks the controller, which changes at any time."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest

from kafkapy.controller.controller_link import ControllerLink
from kafkapy.inter_broker.peers import PeerError, TcpPeers
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import Broker, MetadataImage
from kafkapy.metadata.znodes import Endpoint
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.inter_broker.test_peers import other_broker, send


async def no_own_answer(request: Any) -> Any:
    raise AssertionError


def brokers_at(*ports: int) -> list[Broker]:
    """Brokers 1, 2, … that listen there."""
    return [
        Broker(number, None, {"PLAINTEXT": Endpoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT")}, number)
        for number, port in enumerate(ports, 1)
    ]


async def test_a_frozen_controller_is_waited_for_until_another_broker_is_the_controller() -> None:
    asked = asyncio.Event()

    async def freeze(_correlation_id: int, _writer: asyncio.StreamWriter) -> None:
        asked.set()

    async def answer(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        send(writer, correlation_id, MetadataResponse(controller_id=2), version=1)

    cache = MetadataCache()
    link = ControllerLink(cache, TcpPeers(3), node_id=3, listener="PLAINTEXT", own=no_own_answer)
    async with other_broker(freeze) as first, other_broker(answer) as second:
        with closing(link):
            image = MetadataImage().with_brokers(brokers_at(first, second), 1)
            cache.publish(image)
            asking = asyncio.create_task(link.ask(MetadataRequest(topics=None), seconds=60))
            async with asyncio.timeout(10):
                await asked.wait()
                cache.publish(image.with_brokers(image.brokers.values(), 2))
                with pytest.raises(PeerError):
                    await asking
                assert (await link.ask(MetadataRequest(topics=None), seconds=60)).controller_id == 2
            # The first one may be the controller again.
            cache.publish(image)
            asked.clear()
            asking = asyncio.create_task(link.ask(MetadataRequest(topics=None), seconds=60))
            async with asyncio.timeout(10):
                await asked.wait()
        with pytest.raises(PeerError):
            await asking
