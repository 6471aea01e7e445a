"""Clients in a process of their own.

It can be killed and does not share this one's interpreter.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

AtWork = Event


@contextmanager
def running(work: Callable[..., None], *arguments: str) -> Iterator[BaseProcess]:
    """Run `work(at_work, *arguments)` until the block ends.

    The block begins when the work sets `at_work`.
    """
    spawn = multiprocessing.get_context("spawn")
    at_work = spawn.Event()
    process = spawn.Process(target=work, args=(at_work, *arguments), daemon=True)
    process.start()
    try:
        while not at_work.wait(1):
            if not process.is_alive():
                raise RuntimeError(f"{work.__name__} has failed")
        yield process
    finally:
        process.kill()
        process.join()
