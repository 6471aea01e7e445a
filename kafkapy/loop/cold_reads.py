"""Threads that provide what reads on the event loop lack.

A read, or os.sendfile, blocks if the bytes are not in the page cache: some 45 ms for a megabyte of a busy
disk. On the event loop this would delay every client. So a thread reads the bytes first. The threads are
started on first use and serve nothing else: a slow disk delays only its own readers.

Another thread repairs indexes, one segment after the other (storage/log/index_repair.py). That takes CPU time
rather than the disk's, so more threads would not be faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple, TypeAlias

from kafkapy.storage.disk.errors import NotReadyError
from kafkapy.storage.disk.files import FileSlice, NotCachedError
from kafkapy.storage.log.index_repair import IndexRepair, repair_of
from kafkapy.storage.log.segment import IndexesNotReadyError

THREADS: Final = 4
"""The most threads of a broker for these reads."""

Provide: TypeAlias = Callable[[NotReadyError], Awaitable[object]]
"""Has a thread provide what a read lacks (`ColdReads.provide`)."""


class ColdSlice(NamedTuple):
    """Bytes of a slice that are not in the page cache."""

    slice: FileSlice
    offset: int
    nbytes: int


class ColdReads:
    """The threads of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Executor, repairs: Executor) -> None:
        """`pool` has THREADS threads, `repairs` has one; they have no other users."""
        self._loop = loop
        self._pool = pool
        self._repairs = repairs
        self._under_way: set[IndexRepair] = set()

    def provide(self, missing: NotReadyError) -> asyncio.Future[bool]:
        """Have a thread provide what a read lacks, so that it can be repeated.

        The result is False if bytes could not be loaded: the read that waits for the disk gets the error.
        """
        provided = self._loop.create_future()

        def done(is_loaded: bool = True) -> None:
            if not provided.done():
                provided.set_result(is_loaded)

        if isinstance(missing, NotCachedError):
            self.load(ColdSlice(missing.slice, 0, missing.slice.nbytes), done)
        elif isinstance(missing, IndexesNotReadyError) and (repair := repair_of(missing)) is not None:
            self._repair(repair, done)
        else:
            done()
        return provided

    async def provide_all(self, missing: Sequence[NotReadyError]) -> bool:
        """Provide what several reads lack, as `provide` does, and release what they hold."""
        try:
            return all(await asyncio.gather(*map(self.provide, missing)))
        finally:
            for each in missing:
                each.release()

    def load(self, cold: ColdSlice, done: Callable[[bool], None]) -> None:
        """Load `cold` into the page cache, then call `done` on the loop.

        `done` is told whether the bytes could be read.
        """
        held = [cold.slice.file.acquire()]

        def ended(is_loaded: bool) -> None:
            if held:  # a pool that failed to start a thread may have run the task all the same
                held.pop().release()
                done(is_loaded)

        def read() -> None:
            is_loaded = False
            try:
                with contextlib.suppress(OSError, MemoryError):  # the next reader gets the error
                    cold.slice.load(cold.offset, cold.nbytes)
                    is_loaded = True
            finally:
                with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                    self._loop.call_soon_threadsafe(ended, is_loaded)

        try:
            self._pool.submit(read)
        except RuntimeError:  # no thread can be started, or the pool is shut down
            self._loop.call_soon(ended, False)

    def _repair(self, repair: IndexRepair, done: Callable[[], None]) -> None:
        """Run a repair, unless it is under way, and call `done` on the loop."""
        repair.waiting.append(done)
        if repair in self._under_way:
            return
        self._under_way.add(repair)

        def ended() -> None:
            if repair in self._under_way:  # as in `load`
                self._under_way.remove(repair)
                repair.settle()
                for each in repair.waiting:
                    each()

        def run() -> None:
            try:
                repair.run()
            finally:
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(ended)

        try:
            self._repairs.submit(run)
        except RuntimeError as error:
            repair.fail(OSError(errno.ENOMEM, str(error)))
            self._loop.call_soon(ended)

    def close(self) -> None:
        """Stop the threads after their present work; repairs end without effect."""
        for repair in self._under_way:
            repair.give_up()
        self._pool.shutdown()
        self._repairs.shutdown()
