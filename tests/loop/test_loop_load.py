"""Other threads can tell whether the event loop is busy."""

from __future__ import annotations

import asyncio
import threading
import time

from kafkapy.loop.loop_load import LoopLoad


def watch(load: LoopLoad, seconds: float) -> list[bool]:
    """What another thread sees, every few milliseconds."""
    seen = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        threading.Event().wait(0.006)
        seen.append(load.is_busy())
    return seen


async def test_a_loop_that_only_waits_is_not_busy() -> None:
    load = LoopLoad()
    seen = await asyncio.get_running_loop().run_in_executor(None, watch, load, 0.5)
    assert not seen[-1]


async def test_a_loop_that_works_is_busy() -> None:
    load = LoopLoad()
    watching = asyncio.get_running_loop().run_in_executor(None, watch, load, 0.3)
    while not watching.done():
        sum(range(20_000))
        await asyncio.sleep(0.001)
    assert any(await watching)
