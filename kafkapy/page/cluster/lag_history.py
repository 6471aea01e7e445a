"""The lag of groups over time, measured from the first look at a group on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from kafkapy.errors import UserError

SECONDS: Final = 5.0
"""A group is measured so often."""

_REST: Final = 20
"""If it takes long, it is done less often: at most a twentieth of the time is spent on it."""
_MOST_POINTS: Final = 720
"""An hour's."""
_MOST_GROUPS: Final = 50
_LOOKED_AT_SECONDS: Final = 900.0
"""A group that nobody has looked at for so long is measured no more."""

Point = tuple[float, float]
"""Milliseconds since 1970, and the lag."""


class LagHistory:
    """Measures groups in a thread of its own.

    Args:
        lag: the lag of a group; raises UserError.
    """

    def __init__(self, lag: Callable[[str], int]) -> None:
        self._lag = lag
        self._points: dict[str, deque[Point]] = {}
        self._looked_at: dict[str, float] = {}
        self._lock: Final = threading.Lock()
        self._stopping: Final = threading.Event()
        self._thread: threading.Thread | None = None

    def points(self, group: str) -> Sequence[Point]:
        """What is known of a group, which is measured from now on."""
        with self._lock:
            self._looked_at[group] = time.monotonic()
            if len(self._looked_at) > _MOST_GROUPS:
                self._forget(min(self._looked_at, key=self._looked_at.__getitem__))
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._measure, name="kafkapy-page-lag", daemon=True)
                self._thread.start()
            return list(self._points.get(group, ()))

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _measure(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                for group in [
                    group for group, at in self._looked_at.items() if now - at > _LOOKED_AT_SECONDS
                ]:
                    self._forget(group)
                groups = list(self._looked_at)
            began = time.monotonic()
            for group in groups:
                if self._stopping.is_set():
                    return
                try:
                    point = (time.time() * 1000, float(self._lag(group)))
                except UserError:
                    continue  # It may be gone, or the cluster: the line has a gap.
                with self._lock:
                    if group in self._looked_at:
                        self._points.setdefault(group, deque(maxlen=_MOST_POINTS)).append(point)
            if self._stopping.wait(max(SECONDS, (time.monotonic() - began) * _REST)):
                return

    def _forget(self, group: str) -> None:
        del self._looked_at[group]
        self._points.pop(group, None)
