"""Waiting requests and their timers."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from functools import partial
from types import FrameType
from typing import Any

import pytest

from kafkapy.loop import timers as timers_module
from kafkapy.loop import waiters as waiters_module
from kafkapy.loop.event_loop import new_event_loop
from kafkapy.loop.timers import MAX_REPRIEVE_SECONDS, STALL_SECONDS, SWEEP_FROM, Timers
from kafkapy.loop.waiters import Waiters, Watch

TRACED = (timers_module.__file__, waiters_module.__file__)


def make_waiters() -> tuple[Waiters, Timers]:
    loop = asyncio.get_running_loop()
    timers = Timers(loop)
    return Waiters(loop, timers), timers


async def test_a_wait_ends_when_a_wake_finds_it_ready() -> None:
    waiters, _ = make_waiters()
    ready = False
    waiting = waiters.wait(["a", "b"], 10, lambda: ready)
    assert waiters.wake("a") == 0
    assert waiters.wake("c") == 0
    ready = True
    assert waiters.wake("b") == 1
    assert await waiting is True
    assert waiters.wake("a") == 0
    await asyncio.sleep(0)
    assert (waiters.watching("a"), waiters.watching("b")) == (0, 0)


async def test_what_is_ready_does_not_wait() -> None:
    waiters, _ = make_waiters()
    assert await waiters.wait(["a"], 10, lambda: True) is True
    assert waiters.watching("a") == 0


async def test_a_wait_ends_at_its_deadline() -> None:
    waiters, _ = make_waiters()
    started = time.monotonic()
    assert await waiters.wait(["a"], 0.05, lambda: False) is False
    assert time.monotonic() - started + 0.001 >= 0.05
    assert waiters.watching("a") == 0
    assert waiters.wake("a") == 0


@pytest.mark.parametrize("how", ["wake", "deadline"])
async def test_who_asks_after_the_end_is_told_too(how: str) -> None:
    """A Produce that began in a task is handed to its connection an iteration later."""
    waiters, _ = make_waiters()
    watch = waiters.watch(["a"], 10, lambda: True, str)
    if how == "wake":
        waiters.wake("a")
    else:
        watch.expire()
    told: list[str] = []
    watch.add_done_callback(lambda ended: told.append(ended.result()))
    await asyncio.sleep(0)
    assert told == [str(how == "wake")]
    waiters.wake("a")
    watch.expire()
    await asyncio.sleep(0)
    assert len(told) == 1, "exactly once"


async def test_a_cancelled_wait_is_forgotten() -> None:
    waiters, _ = make_waiters()
    waiting = waiters.wait(["a"], 10, lambda: waiters.watching("a") > 0)
    waiting.cancel()
    await asyncio.sleep(0)
    assert waiters.watching("a") == 0
    assert waiters.wake("a") == 0


async def test_an_error_of_the_question_is_the_error_of_the_wait() -> None:
    waiters, _ = make_waiters()
    divisors = [0, 1]
    waiting = waiters.wait(["a"], 10, lambda: 1 // divisors.pop() == 0)
    assert waiters.wake("a") == 1
    with pytest.raises(ZeroDivisionError):
        await waiting


async def test_one_wake_completes_every_operation_that_is_ready_once() -> None:
    waiters, _ = make_waiters()
    ready: set[int] = set()
    waiting = {n: waiters.wait(["a"], 10, partial(ready.__contains__, n)) for n in range(3)}
    ready.add(1)
    assert waiters.wake("a") == 1
    assert waiters.wake("a") == 0
    ready.update(range(3))
    assert waiters.wake("a") == 2
    assert await asyncio.gather(*waiting.values()) == [True] * 3


async def test_all_waits_end_when_the_broker_stops() -> None:
    waiters, _ = make_waiters()
    waiting = [waiters.wait([n % 3], 100, lambda: False) for n in range(10)]
    waiters.expire_all()
    assert await asyncio.gather(*waiting) == [False] * 10
    assert waiters.watching(0) == 0


async def test_a_watch_completes_within_the_wake() -> None:
    waiters, _ = make_waiters()
    ready = False
    told: list[str] = []
    watch = waiters.watch(["a", "b"], 10, lambda: ready, lambda in_time: f"in time: {in_time}")
    watch.add_done_callback(lambda completed: told.append(completed.result()))
    assert (waiters.wake("a"), told) == (0, [])
    ready = True
    assert (waiters.wake("b"), told) == (1, ["in time: True"])
    assert (waiters.watching("a"), waiters.watching("b")) == (0, 0)
    watch.expire()
    assert len(told) == 1


async def test_a_watch_ends_at_its_deadline_or_with_the_broker() -> None:
    waiters, _ = make_waiters()
    told: list[bool] = []
    done = asyncio.Event()

    def tell(completed: Watch) -> None:
        told.append(completed.result())
        done.set()

    for seconds in (0.01, 100):
        waiters.watch(["a"], seconds, lambda: False, bool).add_done_callback(tell)
    async with asyncio.timeout(5):
        await done.wait()
    assert told == [False]
    waiters.expire_all()
    assert told == [False, False]
    assert waiters.watching("a") == 0


async def test_a_watch_that_was_cancelled_tells_nobody() -> None:
    waiters, _ = make_waiters()
    told: list[object] = []
    watch = waiters.watch(["a"], 10, lambda: True, bool)
    watch.add_done_callback(told.append)
    watch.cancel()
    assert waiters.wake("a") == 0
    assert (told, waiters.watching("a")) == ([], 0)


async def test_who_fails_to_hear_of_a_wake_does_not_stop_others(caplog: pytest.LogCaptureFixture) -> None:
    waiters, _ = make_waiters()
    told: list[bool] = []
    waiters.watch(["a"], 10, lambda: True, lambda _: 1 / 0).add_done_callback(lambda each: each.result())
    waiters.watch(["a"], 10, lambda: True, bool).add_done_callback(lambda each: told.append(each.result()))
    assert waiters.wake("a") == 2
    assert told == [True]
    assert "The callback of a delayed operation failed" in caplog.text


async def test_timers_fire_in_order_not_early_and_at_most_a_tick_late() -> None:
    timers = Timers(asyncio.get_running_loop())
    fired: list[tuple[float, float]] = []
    started = time.monotonic()
    delays = [0.09, 0.01, 0.05, 0.03, 0.0, 0.05]
    done = asyncio.Event()

    def fire(delay: float) -> None:
        fired.append((delay, time.monotonic() - started))

    for delay in delays:
        timers.call_later(delay, partial(fire, delay))
    timers.call_later(0.1, done.set)
    async with asyncio.timeout(5):
        await done.wait()
    assert [delay for delay, _ in fired] == sorted(delays)
    assert all(at >= delay - 0.001 for delay, at in fired)


async def test_a_cancelled_timer_does_not_fire_and_a_failing_one_does_not_stop_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    timers = Timers(asyncio.get_running_loop())
    fired: list[str] = []
    done = asyncio.Event()
    timers.call_later(0.01, lambda: fired.append("cancelled")).cancel()
    timers.call_later(0.01, lambda: 1 / 0)
    timers.call_later(0.01, lambda: fired.append("next"))
    timers.call_later(0.03, done.set)
    async with asyncio.timeout(5):
        await done.wait()
    assert fired == ["next"]
    assert [record.message for record in caplog.records] == ["A timer failed"]


async def test_a_timer_set_by_a_timer_fires() -> None:
    timers = Timers(asyncio.get_running_loop())
    done = asyncio.Event()
    timers.call_later(0, lambda: timers.call_later(0, done.set))
    async with asyncio.timeout(5):
        await done.wait()


async def test_closed_timers_do_not_fire() -> None:
    loop = asyncio.get_running_loop()
    timers, others = Timers(loop), Timers(loop)
    fired: list[int] = []
    later = asyncio.Event()
    timers.call_later(0.01, lambda: fired.append(1))
    others.call_later(0.03, later.set)
    timers.close()
    async with asyncio.timeout(5):
        await later.wait()
    assert not fired


async def test_a_wait_costs_the_same_however_many_there_are() -> None:
    waiters, _ = make_waiters()

    async def lines_of_each(count: int) -> float:
        """Lines of the two modules that were run for a wait.

        They are counted from its beginning until it is forgotten.
        """
        lines = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal lines
            if frame.f_code.co_filename not in TRACED:
                return None
            lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            waiting = [waiters.wait([n], 0.5, lambda: False) for n in range(count)]
            for future in waiting:
                future.cancel()
            await asyncio.sleep(0)
        finally:
            sys.settrace(before)
        return lines / count

    assert 10 < await lines_of_each(10) < 100
    assert await lines_of_each(2_000) < 2 * await lines_of_each(10)


async def test_cancelled_timers_of_far_deadlines_take_no_memory() -> None:
    timers = Timers(asyncio.get_running_loop())
    kept = [timers.call_later(1_000 + n, lambda: None) for n in range(10)]
    for n in range(5 * SWEEP_FROM):
        timers.call_later(100_000 + n, lambda: None).cancel()
    assert sum(map(len, timers._slots.values())) <= SWEEP_FROM + len(kept) + 1
    assert all(timer.is_pending for timer in kept)
    timers.close()


@pytest.mark.parametrize("stalled", [STALL_SECONDS * 2, MAX_REPRIEVE_SECONDS * 1.5])
def test_what_came_during_a_stall_is_read_before_timers_fire(stalled: float) -> None:
    """As a heartbeat that came in time, and that the event loop has not looked at yet."""

    async def stall() -> str:
        loop = asyncio.get_running_loop()
        timers, ended = Timers(loop), loop.create_future()
        sockets = [*socket.socketpair(), *socket.socketpair()]
        long_request, heartbeat, *clients = sockets[::2] + sockets[1::2]
        expiry = timers.call_later(STALL_SECONDS / 2, lambda: ended.set_result("expired"))

        def handle_long_request() -> None:
            long_request.recv(1)
            clients[1].send(b"x")
            time.sleep(stalled)  # this is the stall

        def handle_heartbeat() -> None:
            heartbeat.recv(1)
            expiry.cancel()
            ended.set_result("read")

        loop.add_reader(long_request, handle_long_request)
        loop.add_reader(heartbeat, handle_heartbeat)
        clients[0].send(b"x")
        try:
            return await asyncio.wait_for(ended, 10)
        finally:
            for each in sockets:
                loop.remove_reader(each)
                each.close()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(stall()) == "read"


async def test_timers_that_nobody_cancels_fire_after_a_stall() -> None:
    timers, fired = Timers(asyncio.get_running_loop()), asyncio.Event()
    timers.call_later(0.01, fired.set)
    time.sleep(STALL_SECONDS * 2)  # noqa: ASYNC251
    await asyncio.wait_for(fired.wait(), 10)
