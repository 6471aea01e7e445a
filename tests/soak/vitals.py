"""What a broker holds: memory, descriptors, threads and tasks."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

import psutil

from tests.soak.secure_broker import SecureBroker

PAUSE: Final = 2.0
"""Seconds between two samples of the memory."""


class Holdings(NamedTuple):
    """What a broker without clients holds."""

    tasks: int
    threads: int
    descriptors: int
    """Without those of its logs, and of connections that clients have not closed."""
    log_files: int
    deleted_files: tuple[str, ...]
    """Those that are still open."""

    @classmethod
    def of(cls, broker: SecureBroker) -> Self:
        """Read them from /proc (proc(5))."""
        others = logs = 0
        deleted = []
        for entry in os.scandir(f"/proc/{broker.pid}/fd"):
            try:
                path = os.readlink(entry.path)
            except FileNotFoundError:
                continue
            logs += path.startswith(str(broker.data))
            others += not path.startswith(str(broker.data))
            if path.startswith(str(broker.data)) and path.endswith(" (deleted)"):
                deleted.append(path)
        connections = psutil.Process(broker.pid).net_connections("tcp")
        others -= sum(each.status == psutil.CONN_ESTABLISHED for each in connections)
        return cls(broker.tasks(), len(os.listdir(f"/proc/{broker.pid}/task")), others, logs, tuple(deleted))


class Memory:
    """Samples of the resident memory, taken by a thread of its own while the block runs."""

    def __init__(self, broker: SecureBroker) -> None:
        self._broker = broker
        self._samples: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(PAUSE):
            self._samples.append((time.monotonic(), self._broker.rss))

    @property
    def most_mib(self) -> float:
        """The largest sample, in MiB."""
        return max(rss for _, rss in self._samples) / (1 << 20)

    @property
    def slope_mib(self) -> float:
        """MiB a minute: the median slope between any two samples (Theil and Sen)."""
        return slope(self._samples) * 60 / (1 << 20)


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between any two points that are far apart."""
    apart = (samples[-1][0] - samples[0][0]) / 4
    return statistics.median(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(samples)
        for later in samples[number + 1 :]
        if later[0] - earlier[0] >= apart
    )
