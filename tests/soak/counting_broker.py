"""`kafkapy serve` that tells how many tasks its event loop has.

    python -m tests.soak.counting_broker serve [options of kafkapy serve]

At SIGUSR1 it writes their number to the file that KAFKAPY_TASKS names.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import kafkapy.loop.event_loop
from kafkapy.cli import main

TASKS_FILE = "KAFKAPY_TASKS"


def run() -> None:
    """Serve, and count when asked."""
    loops: list[asyncio.AbstractEventLoop] = []
    new_event_loop = kafkapy.loop.event_loop.new_event_loop

    def kept() -> asyncio.AbstractEventLoop:
        loops.append(new_event_loop())
        return loops[-1]

    def count(*_: object) -> None:
        path = Path(os.environ[TASKS_FILE])
        new = path.with_suffix(".new")
        new.write_text(str(sum(len(asyncio.all_tasks(loop)) for loop in loops)))
        new.replace(path)

    setattr(kafkapy.loop.event_loop, "new_event_loop", kept)  # noqa: B010
    signal.signal(signal.SIGUSR1, count)
    main()


if __name__ == "__main__":
    run()
