"""Delays, doubles and loses frames of transactions.

It stands between clients and a broker.

    with FrameProxy(broker.address, seed=1) as proxy:
        Producer({"bootstrap.servers": proxy.bootstrap_servers})

The broker advertises the proxy's address. What is done to a frame is what a network or a client does that
waited too long for an answer:

    doubled         it arrives twice; the second answer goes nowhere
    delayed         it arrives later, and so does what follows it on its connection
    lost            the connection ends before it arrives
    answer lost     the connection ends before its answer arrives
    late            it arrives once more, after a while, on a connection of its own

A late EndTxn of a version before 5 ends the next transaction of its producer, in Apache Kafka too: only since
KIP-890 each transaction has an epoch of its own. So only later versions are sent late.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
from collections import Counter, deque
from collections.abc import Coroutine, Mapping
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.produce import ProduceRequest
from kafkapy.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.ports import free_ports

FIRST_OWN_EPOCH: Final = 5
"""The version of EndTxn since which each transaction has an epoch of its own."""
_HEADER: Final = struct.Struct(">hhi")


class Fate(StrEnum):
    """What becomes of a frame."""

    DOUBLED = "doubled"
    DELAYED = "delayed"
    LOST = "lost"
    ANSWER_LOST = "answer lost"
    LATE = "late"


class Chances(NamedTuple):
    """The share of the frames that something is done to, and what."""

    share: float
    fates: tuple[Fate, ...]


CHANCES: Final[Mapping[int, Chances]] = {
    int(EndTxnRequest.KEY or 0): Chances(0.4, tuple(Fate)),
    int(AddPartitionsToTxnRequest.KEY or 0): Chances(0.1, (Fate.DOUBLED, Fate.DELAYED, Fate.ANSWER_LOST)),
    int(AddOffsetsToTxnRequest.KEY or 0): Chances(0.1, (Fate.DOUBLED, Fate.DELAYED, Fate.ANSWER_LOST)),
    int(TxnOffsetCommitRequest.KEY or 0): Chances(0.1, (Fate.DOUBLED, Fate.DELAYED, Fate.ANSWER_LOST)),
    int(ProduceRequest.KEY or 0): Chances(0.03, (Fate.DOUBLED, Fate.DELAYED, Fate.LOST, Fate.ANSWER_LOST)),
}
"""By API key."""


class _Answer(StrEnum):
    """What becomes of the next answer of a connection."""

    GIVEN = "given"
    DROPPED = "dropped"
    LOST = "lost"


class FrameProxy:
    """The proxy of one broker, on an event loop in a thread of its own."""

    def __init__(
        self,
        broker: tuple[str, int],
        *,
        seed: int,
        chances: Mapping[int, Chances] = CHANCES,
        most_delay: float = 1.0,
        most_late: float = 2.0,
    ) -> None:
        """`most_delay` and `most_late` are in seconds."""
        self.bootstrap_servers = f"127.0.0.1:{free_ports(1)[0]}"
        self.counts: Counter[str] = Counter()
        """How often which frames met which fate."""
        self.quiet = False
        """Do nothing to frames any more."""
        self._broker, self._chance, self._chances = broker, random.Random(seed), chances
        self._most_delay, self._most_late = most_delay, most_late
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="frame proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        port = int(self.bootstrap_servers.rpartition(":")[2])
        server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._keep(self._relay(reader, writer))

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            from_broker, to_broker = await asyncio.open_connection(*self._broker)
            with contextlib.closing(to_broker):
                expected: deque[_Answer] = deque()
                ways = [
                    self._loop.create_task(self._requests(reader, to_broker, expected)),
                    self._loop.create_task(self._answers(from_broker, writer, expected)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, expected: deque[_Answer]
    ) -> None:
        """Bring the client's frames to the broker; ends where the connection is to end."""
        while True:
            frame = await _read_frame(reader)
            key, version, _ = _HEADER.unpack_from(frame, 4)
            fate = self._fate(key, version)
            if fate is Fate.LOST:
                return
            if fate is Fate.DELAYED:
                await asyncio.sleep(self._chance.uniform(0, self._most_delay))
            writer.write(frame)
            expected.append(_Answer.LOST if fate is Fate.ANSWER_LOST else _Answer.GIVEN)
            if fate is Fate.DOUBLED:
                writer.write(frame)
                expected.append(_Answer.DROPPED)
            if fate is Fate.LATE:
                self._keep(self._late(frame, self._chance.uniform(0, self._most_late)))
            await writer.drain()

    def _fate(self, key: int, version: int) -> Fate | None:
        share, fates = self._chances.get(key, (0.0, ()))
        if self.quiet or self._chance.random() >= share:
            return None
        fate = self._chance.choice(fates)
        if fate is Fate.LATE and version < FIRST_OWN_EPOCH:
            return None
        self.counts[f"API key {key} {fate}"] += 1
        return fate

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, expected: deque[_Answer]
    ) -> None:
        """Bring the broker's answers to the client; ends where one is to be lost."""
        while True:
            frame = await _read_frame(reader)
            answer = expected.popleft()
            if answer is _Answer.LOST:
                return
            if answer is _Answer.GIVEN:
                writer.write(frame)
                await writer.drain()

    async def _late(self, frame: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(*self._broker)
            with contextlib.closing(writer):
                writer.write(frame)
                await _read_frame(reader)


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    """A frame, with its size before it."""
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size))
