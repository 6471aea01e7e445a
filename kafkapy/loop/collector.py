"""Keeps long-lived objects out of the garbage collector's full collections.

The objects of a partition live as long as the partition. A full collection visits all of them: 0.1 s for
10,000 partitions, during which the broker serves no request. So the objects that exist after the start are
frozen, and so are later ones after each long full collection. A frozen object is still freed when nothing
refers to it. Only cycles of frozen objects are never freed, and they are few.

What is imported is frozen at once: collections of it found nothing, in a tenth of the time of a start.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

LONG_SECONDS: Final = 0.01
FULL: Final = 2
"""The oldest generation: its collection is a full one."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Import modules in the `with` block without collections, a third of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Import modules in the `with` block without collections, and freeze what they define."""
    with without_collections():
        yield
        gc.freeze()


class Collector:
    """Watches the collector of this process."""

    def __init__(self, long_seconds: float = LONG_SECONDS) -> None:
        """A full collection that takes more than `long_seconds` of CPU time is a long one."""
        self._long_seconds = long_seconds
        self._started = 0.0

    def start(self) -> None:
        """Freeze the present objects, and later ones after each long collection."""
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._look)

    def stop(self) -> None:
        """Unfreeze the objects and stop watching."""
        gc.callbacks.remove(self._look)
        gc.unfreeze()

    def _look(self, phase: str, info: Mapping[str, Any]) -> None:
        if info["generation"] != FULL:
            return
        if phase == "start":
            self._started = time.thread_time()
        elif time.thread_time() - self._started > self._long_seconds:
            gc.freeze()
