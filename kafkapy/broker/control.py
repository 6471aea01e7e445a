"""A socket in the data directory, by which commands ask a running broker for a snapshot.

    client: snapshot\\n
    broker: {"paths": ["/data/.kafkapy_snapshot-…"], "at_ms": 1764500000000}\\n    or {"error": "…"}\\n

The snapshot has a part in each log directory, so that files are shared, and goes when the client closes the
connection, however it ends. Only the user of the broker, and root, can open the socket. One snapshot is taken
at a time, and a few commands may wait or have one.

Crash story: a broker that was killed leaves the socket, and maybe snapshots; the next start removes both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
from typing import TYPE_CHECKING, Final

from kafkapy.broker.snapshots import take_snapshot
from kafkapy.snapshot import CONTROL, TAKEN_PREFIX, SnapshotError, short_path

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore

_LONGEST: Final = 100
"""The most bytes of a request."""
_MOST: Final = 8
"""The most connections: more than one waits for its turn, or has a snapshot."""
_ASKING_SECONDS: Final = 10
"""How long a client may take to say what it wants."""

logger = logging.getLogger(__name__)


class Control:
    """The socket of a broker."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._directories = [each.absolute() for each in core.config.log_dirs]
        self._directory = self._directories[0]
        self._server: asyncio.Server | None = None
        self._turn = asyncio.Lock()
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Remove what an earlier broker left, and listen.

        Without a socket the broker serves all the same.
        """
        try:
            await self._core.blocking(self._clear)
            with short_path(self._directory / CONTROL) as path:
                before = os.umask(0o177)
                try:
                    self._server = await asyncio.start_unix_server(self._serve, path, limit=_LONGEST)
                finally:
                    os.umask(before)
        except OSError as error:
            logger.warning(
                "kafkapy backup cannot reach this broker: %s: %s", self._directory / CONTROL, error
            )

    async def stop(self) -> None:
        """Close the socket, and remove snapshots that are in use; what cannot be removed is left."""
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        # On a disk that has failed they stay, for the next start; the broker has more to stop.
        with contextlib.suppress(OSError):
            await self._core.blocking(self._clear)

    def _clear(self) -> None:
        (self._directory / CONTROL).unlink(missing_ok=True)
        for directory in self._directories:
            for left in directory.glob(f"{TAKEN_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            with contextlib.suppress(ConnectionError, TimeoutError, ValueError):
                if len(self._clients) > _MOST:
                    error = f"{_MOST} other commands are at work with this broker: run this again later"
                    writer.write(json.dumps({"error": error}).encode() + b"\n")
                    await writer.drain()
                    return
                async with asyncio.timeout(_ASKING_SECONDS):
                    asked = await reader.readline()
                if asked == b"snapshot\n":
                    await self._give_snapshot(reader, writer)
        finally:
            self._clients.discard(task)
            writer.close()

    async def _give_snapshot(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = f"{TAKEN_PREFIX}{os.urandom(8).hex()}"
        taken = [f"{each}/{name}" for each in self._directories]
        try:
            async with self._turn:
                at_ms = await take_snapshot(self._core, *taken)
            writer.write(json.dumps({"paths": taken, "at_ms": at_ms}).encode() + b"\n")
            await writer.drain()
            await reader.read()  # until the client is done
        except SnapshotError as error:
            writer.write(json.dumps({"error": str(error)}).encode() + b"\n")
            await writer.drain()
        finally:
            writer.close()  # before files go, so that the client does not take the rest for the whole
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            for each in taken:
                await self._core.blocking(shutil.rmtree, each, ignore_errors=True)
