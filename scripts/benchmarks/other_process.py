"""Clients in a process of their own.

It can be killed and does not share this one's interpreter.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

AtWork = Event


class OtherProcess:
    """Runs `work(at_work, *arguments)`; what it returns is its result."""

    def __init__(self, work: Callable[..., object], *arguments: object) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._name = work.__name__
        self._at_work = spawn.Event()
        self._result, theirs = spawn.Pipe(duplex=False)
        self._process = spawn.Process(
            target=_work, args=(theirs, work, self._at_work, *arguments), daemon=True
        )
        self._process.start()
        theirs.close()

    def wait_until_at_work(self) -> None:
        """Wait until the work sets `at_work`; raises RuntimeError if it fails before."""
        while not self._at_work.wait(1):
            if not self._process.is_alive():
                raise RuntimeError(f"{self._name} has failed")

    def has_ended(self) -> bool:
        return not self._process.is_alive()

    def result(self, timeout: float = 600) -> Any:
        """Wait for what the work returns; raises RuntimeError if it fails, and TimeoutError."""
        if not self._result.poll(timeout):
            raise TimeoutError(f"{self._name} has not ended within {timeout:g} s")
        try:
            return self._result.recv()
        except EOFError:
            raise RuntimeError(f"{self._name} has failed") from None

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _work(result: Connection, work: Callable[..., object], *arguments: object) -> None:
    result.send(work(*arguments))


@contextmanager
def running(work: Callable[..., object], *arguments: object) -> Iterator[OtherProcess]:
    """Run `work(at_work, *arguments)` until the block ends.

    The block begins when the work sets `at_work`.
    """
    process = OtherProcess(work, *arguments)
    try:
        process.wait_until_at_work()
        yield process
    finally:
        process.kill()
