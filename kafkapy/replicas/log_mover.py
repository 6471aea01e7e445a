"""Moves of partitions to other log directories, while they are written and read.

AlterReplicaLogDirs requests them. A move is a task. It copies pieces of the log in worker threads until few
are missing. Then the copy replaces the log on the event loop, between two requests.
storage/directories/future_log.py describes the files during a move and after a crash. At most
`num.replica.alter.log.dirs.threads` moves copy at once; the others wait.

A move ends when it is complete or a disk fails. A request to move the partition elsewhere, or the deletion of
its topic, ends it and removes the copy. The stop of the broker ends it and keeps the copy for the next start.
When the disk is full or descriptors run out, the move waits. All moves together copy at most
`replica.alter.log.dirs.io.max.bytes.per.second`.

A log is not compacted while it moves. Otherwise compaction could remove a tombstone that the copy has not
read yet, although the copy holds the records that the tombstone deletes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.partition import Partition
from kafkapy.storage.directories.future_log import FutureLog
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import StorageError, TransientStorageError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.partition_log import PartitionLog

PIECES_ON_THE_LOOP: Final = 2
"""The most pieces that are copied on the event loop, between two requests, to complete a copy."""

MIN_WAIT_SECONDS: Final = 0.01

RATE_SECONDS: Final = 1.0
"""How often a move that waits looks whether its rate has changed, as Apache Kafka's thread of moves does."""

RETRY_SECONDS: Final = 0.5
"""The delay before the flush of a copy that replaced its log is retried."""

logger = logging.getLogger(__name__)


class _Move:
    """The move of one partition."""

    def __init__(self, partition: Partition, copy: PartitionLog, *, resumed: bool) -> None:
        self.partition = partition
        self.future = FutureLog(partition.log, copy)
        self.resumed = resumed
        self.stopping = asyncio.Event()
        self.discard = False
        """Whether to delete the copy when the move ends."""
        self.task: asyncio.Task[None] | None = None

    @property
    def directories(self) -> tuple[LogDirectory, LogDirectory]:
        """The log directories of the log and of its copy."""
        return self.future.source.log_directory, self.future.copy.log_directory


class LogMover:
    """The moves of one broker."""

    room_seconds: float = 5.0
    """The delay before a move is retried after a full disk or a lack of descriptors."""

    def __init__(
        self,
        logs: LogManager,
        blocking: Callable[..., Awaitable[Any]],
        threads: int,
        rate: Callable[[], int],
    ) -> None:
        """`blocking` runs a function in a worker thread.

        `rate` returns how many bytes per second may be copied.
        """
        self._rate = rate
        self._ahead = 0.0
        """How many bytes more than the rate allows were copied until `_ahead_at`, on the loop's clock."""
        self._ahead_at = 0.0
        self._logs = logs
        self._blocking = blocking
        self._turns = asyncio.Semaphore(threads)
        self.moves: dict[TopicPartition, _Move] = {}
        """Those that are under way."""
        self._stopped = False

    async def move(self, partition: Partition, directory: LogDirectory) -> None:
        """Start to move the partition to `directory`; if it is already there, stop its move.

        Raises:
            KafkaError: INVALID_TOPIC_EXCEPTION, the topic's name is too long; KAFKA_STORAGE_ERROR.
        """
        topic_partition = partition.topic_partition
        move = self.moves.get(topic_partition)
        while move is not None and (move.directories[1] is not directory or move.stopping.is_set()):
            move.discard = True
            await self._end(move)
            move = self.moves.get(topic_partition)
        partition.require_online()
        if move is None and partition.log.log_directory is not directory:
            self._logs.moves.delete_copy(topic_partition)
            self._start(partition, self._logs.moves.create_copy(topic_partition, directory), resumed=False)

    def opened(self, partition: Partition) -> None:
        """Continue a move that the last stop of the broker interrupted."""
        topic_partition = partition.topic_partition
        copy = self._logs.moves.copies.get(topic_partition)
        if copy is None or topic_partition in self.moves:
            return
        if copy.topic_id == partition.topic_id and copy.log_directory is not partition.log.log_directory:
            self._start(partition, copy, resumed=True)
        else:
            self._delete_copy(topic_partition)

    def deleted(self, topic_partition: TopicPartition) -> None:
        """End the move of a deleted partition and delete its copy."""
        move = self.moves.get(topic_partition)
        if move is None:
            self._delete_copy(topic_partition)
        else:
            move.discard = True
            move.stopping.set()

    def log_directory_failed(self, directory: LogDirectory) -> None:
        """End the moves from and to a directory."""
        for move in self.moves.values():
            if directory in move.directories:
                move.stopping.set()

    async def stop(self) -> None:
        """End every move; the next start of the broker continues them."""
        self._stopped = True
        for move in list(self.moves.values()):
            await self._end(move)

    def _start(self, partition: Partition, copy: PartitionLog, *, resumed: bool) -> None:
        move = self.moves[partition.topic_partition] = _Move(partition, copy, resumed=resumed)
        move.task = asyncio.get_running_loop().create_task(
            self._run(move), name=f"move {partition.topic_partition}"
        )

    async def _end(self, move: _Move) -> None:
        move.stopping.set()
        assert move.task is not None
        await asyncio.wait([move.task])

    async def _run(self, move: _Move) -> None:
        topic_partition = move.partition.topic_partition
        source, copy = move.future.source, move.future.copy
        loop = asyncio.get_running_loop()
        started = loop.time()
        logger.info("Moving %s from %s to %s", topic_partition, source.log_directory.path, copy.path)
        try:
            if await self._copy(move):
                await self._finish(move)
                logger.info(
                    "Moved %s to %s: %s bytes in %.1f s",
                    topic_partition,
                    copy.path,
                    f"{copy.size:,}",
                    loop.time() - started,
                )
        except StorageError as error:
            logger.error("%s stays in %s: %s", topic_partition, source.path, error.message)
        except KafkaError as error:
            logger.error("%s cannot be moved: %s", topic_partition, error.message)
            move.discard = True
        finally:
            del self.moves[topic_partition]
            if copy.log_directory.error is not None or move.discard:
                self._delete_copy(topic_partition)

    async def _copy(self, move: _Move) -> bool:
        """Copy to the end of the log and replace the log with the copy.

        Returns False if the move must stop first.
        """
        future = move.future
        fits = not move.resumed  # whether everything in the copy is in the log too
        async with self._turns:
            while not move.stopping.is_set():
                piece = None
                try:
                    if not fits:
                        future.resume()
                        fits = True
                    piece = future.next_piece()
                    if piece is not None:
                        await self._blocking(future.write, piece)
                        await self._keep_rate(move, piece.nbytes)
                        continue
                    await self._blocking(future.sync)
                    await self._blocking(future.mark)
                    if not move.stopping.is_set() and self._take_over(move):
                        return True
                except TransientStorageError as error:
                    logger.error("%s waits to be moved: %s", move.partition.topic_partition, error.message)
                    await _wait(move.stopping, self.room_seconds)
                finally:
                    if piece is not None:
                        piece.release()
        return False

    async def _keep_rate(self, move: _Move, nbytes: int) -> None:
        """Wait until the next piece may be copied; the rate may change meanwhile."""
        while not move.stopping.is_set():
            now, rate = asyncio.get_running_loop().time(), max(self._rate(), 1)
            self._ahead = max(self._ahead - (now - self._ahead_at) * rate, 0) + nbytes
            self._ahead_at, nbytes = now, 0
            # Waits that are too short for the clock add up in `_ahead`.
            if (seconds := self._ahead / rate) <= MIN_WAIT_SECONDS:
                return
            await _wait(move.stopping, min(seconds, RATE_SECONDS))

    def _take_over(self, move: _Move) -> bool:
        """Copy the last pieces and replace the log with the copy.

        Returns False if there is more to copy.
        """
        future, partition = move.future, move.partition
        partition.require_online()
        future.copy.log_directory.require_writable()
        for _ in range(PIECES_ON_THE_LOOP + 1):
            piece = future.next_piece()
            if piece is None:
                self._logs.moves.take_over(future)
                partition.replace_log(future.copy)
                return True
            try:
                future.write(piece)
            finally:
                piece.release()
        future.hand_over()
        return False

    async def _finish(self, move: _Move) -> None:
        """Flush the new log, delete the old one, and let the partition commit again.

        Until this is done, no records of the partition are committed. Errors that are not the disk's are
        retried.

        Raises:
            Exception: the disk failed, or the broker stops first.
        """
        log = move.future.copy
        while True:
            try:
                await self._settle(move)
            except Exception as error:
                if log.log_directory.error is not None or self._stopped:
                    raise
                logger.error("Moving %s continues later: %s", move.partition.topic_partition, error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _settle(self, move: _Move) -> None:
        log, topic_partition = move.future.copy, move.partition.topic_partition
        ticket = log.prepare_flush()
        if ticket is not None:
            try:
                await self._blocking(ticket.run)
            except Exception as error:
                log.abort_flush(ticket, error)
                raise
            log.complete_flush(ticket)
        if log.cleaned_offset is not None:
            # Recovery would take the gaps of compaction for losses.
            await self._blocking(self._logs.checkpoint_recovery_points())
            await self._blocking(self._logs.checkpoint_cleaner_offsets())
        if topic_partition in self._logs.moves.replaced:
            settle = self._logs.moves.delete_replaced(topic_partition)
            move.partition.resume_commits()
            await self._blocking(settle)

    def _delete_copy(self, topic_partition: TopicPartition) -> None:
        try:
            self._logs.moves.delete_copy(topic_partition)
        except StorageError as error:
            logger.error("The copy of %s stays: %s", topic_partition, error.message)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait at most `seconds` until the event is set."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
