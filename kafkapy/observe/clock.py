"""The clock of a broker, for tests that advance it."""

from __future__ import annotations

import asyncio
import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore
    from kafkapy.loop.manual_clock import ManualClock


_MARGIN = datetime.timedelta(days=365)
"""What real time may add to the last time that it can show."""
_TOO_FAR = f"a clock cannot be advanced beyond the year {datetime.MAXYEAR}"


class Advance(Protocol):
    """Has a broker do what is due in so many seconds."""

    def __call__(self, seconds: float, *, members_stay: bool) -> None: ...


class TestClock:
    """A clock that runs as the machine's does, until a test advances it."""

    __test__ = False  # pytest would collect it

    def __init__(self, clock: ManualClock, advance: Advance) -> None:
        self._clock = clock
        self._advance = advance

    def now(self) -> datetime.datetime:
        """The broker's time, in UTC."""
        return datetime.datetime.fromtimestamp(self._clock.now_ms() / 1000, datetime.UTC)

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        members_stay: bool = False,
    ) -> None:
        """Let so much time pass for the broker, and return when it has done what was due in it.

        Args:
            members_stay: whether the members of groups are heard from all the while; else they are silent.

        Raises:
            ValueError: that is no time, or the clock would go back.
            RuntimeError: the broker is paused, or stopped meanwhile.
        """
        wanted = seconds_of(self.now(), days=days, hours=hours, minutes=minutes, seconds=seconds)
        with self._clock.turn_of_tests:
            self._advance(wanted, members_stay=members_stay)


class AsyncTestClock:
    """A `TestClock` for asyncio: its `advance` is a coroutine."""

    def __init__(self, clock: TestClock) -> None:
        self._clock = clock

    def now(self) -> datetime.datetime:
        """The broker's time, in UTC."""
        return self._clock.now()

    async def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        members_stay: bool = False,
    ) -> None:
        """Let so much time pass for the broker, as `TestClock.advance`."""
        await asyncio.to_thread(
            self._clock.advance,
            days=days,
            hours=hours,
            minutes=minutes,
            seconds=seconds,
            members_stay=members_stay,
        )


def seconds_of(now: datetime.datetime, *, days: float, hours: float, minutes: float, seconds: float) -> float:
    """The seconds of all of it together, by which a clock is to be advanced that shows `now`.

    Raises:
        ValueError: that is no time, or a clock would go back, or further than it can show.
    """
    try:
        passed = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        _ = now + passed + _MARGIN
    except OverflowError:
        raise ValueError(_TOO_FAR) from None
    wanted = passed.total_seconds()
    if wanted <= 0:
        raise ValueError(f"a clock cannot be advanced by {wanted:g} s: expected more than 0")
    return wanted


async def advance(core: BrokerCore, clock: ManualClock, seconds: float, members_stay: bool) -> None:
    """Advance the clock of a running broker, and do what is due meanwhile."""
    turned = core.hear_from_all_members if members_stay else None
    await clock.advance(seconds, at_rest=lambda: core.is_at_rest, turned=turned)
