"""The garbage collector, told what it need not look at again.

What a broker keeps for its partitions lives as long as they do. Each full collection goes through all of it:
0.1 s for 10,000 partitions, during which nobody is served. So the objects that are there after the start are
frozen, and later ones whenever a full collection has taken long. A frozen object is still freed when nobody
refers to it; only cycles among them stay, and those are few.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Any, Final

LONG_SECONDS: Final = 0.01
FULL: Final = 2
"""The oldest generation, which holds everything."""


class Collector:
    """Watches the collector of this process."""

    def __init__(self) -> None:
        self._started = 0.0

    def start(self) -> None:
        """Freeze what is there, and from now on what makes collections long."""
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._look)

    def stop(self) -> None:
        """Leave the collector as it was."""
        gc.callbacks.remove(self._look)
        gc.unfreeze()

    def _look(self, phase: str, info: Mapping[str, Any]) -> None:
        if info["generation"] != FULL:
            return
        if phase == "start":
            self._started = time.thread_time()
        elif time.thread_time() - self._started > LONG_SECONDS:
            gc.freeze()
