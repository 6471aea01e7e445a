"""Connections to other brokers: versions, failures, and answers that come too late."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing

import pytest

import kafkapy
from kafkapy.inter_broker.peers import PeerAddress, PeerError, TcpPeer, TcpPeers
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import parse_request_header, response_parts
from kafkapy.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.fetch import FetchRequest
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkapy.protocol.types import ApiKey

Answer = Callable[[int, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request of this correlation id, other than ApiVersions."""


def peer_of(port: int) -> closing[TcpPeer]:
    return closing(TcpPeers(1).connect(PeerAddress(2, "127.0.0.1", port), "test"))


@asynccontextmanager
async def other_broker(answer: Answer, metadata_versions: tuple[int, int] = (0, 1)) -> AsyncIterator[int]:
    """A broker that knows Metadata only; its port."""

    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.append(task)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                header, _ = parse_request_header(await reader.readexactly(size))
                if header.api_key != ApiKey.API_VERSIONS:
                    await answer(header.correlation_id, writer)
                    continue
                known = ApiVersion(
                    api_key=ApiKey.METADATA,
                    min_version=metadata_versions[0],
                    max_version=metadata_versions[1],
                )
                send(
                    writer, header.correlation_id, ApiVersionsResponse(api_keys=[known]), ApiKey.API_VERSIONS
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*serving)


def send(
    writer: asyncio.StreamWriter,
    correlation_id: int,
    response: ApiVersionsResponse | MetadataResponse,
    key: ApiKey = ApiKey.METADATA,
    version: int = 0,
) -> None:
    for part in response_parts(key, version, correlation_id, response):
        assert isinstance(part, bytes)
        writer.write(part)


async def never(correlation_id: int, writer: asyncio.StreamWriter) -> None:
    raise AssertionError


async def test_a_broker_answers_in_the_highest_version_of_both() -> None:
    async with kafkapy.AsyncBroker() as broker:
        with peer_of(int(broker.bootstrap_servers.rpartition(":")[2])) as peer:
            assert await peer.version(ApiKey.FETCH) == FetchRequest.VERSIONS[1]
            created = await peer.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders")]), seconds=5)
            assert created.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
            asked = (peer.ask(MetadataRequest(topics=None), seconds=5) for _ in range(9))
            assert all(len(answer.brokers) == 1 for answer in await asyncio.gather(*asked))
        with pytest.raises(PeerError, match="is closed"):
            await peer.ask(MetadataRequest(), seconds=5)


async def test_a_request_that_the_other_broker_does_not_know_is_not_sent() -> None:
    async with other_broker(never) as port:
        with peer_of(port) as peer, pytest.raises(PeerError, match="no version of LEADER_AND_ISR"):
            await peer.ask(LeaderAndIsrRequest(), seconds=5)
    async with other_broker(never, (100, 120)) as port:
        with peer_of(port) as peer, pytest.raises(PeerError, match="no version of METADATA"):
            await peer.ask(MetadataRequest(), seconds=5)


async def test_nobody_listens() -> None:
    async with other_broker(never) as port:
        pass
    with peer_of(port) as peer, pytest.raises(PeerError, match="cannot be reached"):
        await peer.ask(MetadataRequest(), seconds=5)


async def test_a_late_answer_is_not_taken_for_that_of_the_next_request() -> None:
    asked: list[int] = []

    async def late(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        asked.append(correlation_id)
        if len(asked) > 1:
            for each in asked:
                send(writer, each, MetadataResponse(controller_id=each), version=1)

    async with other_broker(late) as port:
        with peer_of(port) as peer:
            with pytest.raises(PeerError, match="has not answered within"):
                await peer.ask(MetadataRequest(topics=None), seconds=0.2)
            with pytest.raises(PeerError, match="another request"):  # the first answer on the new connection
                await peer.ask(MetadataRequest(topics=None), seconds=5)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "closed"), (struct.pack(">i", -5), "closed"), (struct.pack(">ii", 5, 2) + b"x", "cannot be read")],
)
async def test_a_broken_answer_closes_the_connection_and_the_next_request_connects_anew(
    data: bytes, message: str
) -> None:
    broken = True

    async def answer(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        nonlocal broken
        if broken:
            writer.write(data)
            if not data:
                writer.close()
        else:
            send(writer, correlation_id, MetadataResponse(controller_id=7), version=1)
        broken = False

    async with other_broker(answer) as port:
        with peer_of(port) as peer:
            with pytest.raises(PeerError, match=message):
                await peer.ask(MetadataRequest(topics=None), seconds=5)
            assert (await peer.ask(MetadataRequest(topics=None), seconds=5)).controller_id == 7
