"""A run that continues in a thread until the test has seen enough."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def following(run: Callable[[threading.Event], T]) -> Iterator[Future[T]]:
    """`run(stop)` in a thread, asked to stop at the end."""
    stop, done = threading.Event(), Future[T]()

    def follow() -> None:
        try:
            done.set_result(run(stop))
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join(120)
        assert not thread.is_alive()
