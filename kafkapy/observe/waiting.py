"""Waiting until something is so, or telling what is so instead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

PATIENCE: Final = 10.0
"""How long to wait by default, in seconds."""

_PAUSE: Final = 0.005
_SHARE: Final = 0.01
"""The longer it waits, the less often it looks: a look comes late by this share of the time, at most."""

T = TypeVar("T")


class NotSeenError(AssertionError):
    """What a test waited for did not come; the message tells what was there instead."""


class NotNowError(RuntimeError):
    """A partition of a cluster cannot be read or written now, and may be soon."""


class NotLedError(NotNowError):
    """Another broker of the cluster leads a partition, so this one cannot tell what is there.

    Args:
        of_all: whether all brokers were asked: then none leads it.
    """

    def __init__(self, topic: str, partition: int, *, of_all: bool = False) -> None:
        super().__init__(
            f"no broker that runs leads {topic}-{partition}"
            if of_all
            else f"this broker does not lead {topic}-{partition}; ask the broker that does, or the cluster"
        )


class NotYet(NamedTuple):
    """What is there instead of what is waited for."""

    told: str
    never: bool = False
    """Whether waiting longer is of no use."""


async def until(look: Callable[[], Awaitable[T | NotYet]], wanted: str, seconds: float) -> T:
    """Look again and again, and return what is found.

    Args:
        wanted: completes "waited for".

    Raises:
        NotSeenError: it is not there after so many seconds.
    """
    start = began = time.monotonic()
    end = began + seconds
    while isinstance(found := await _looked(look), NotYet):
        if found.never or time.monotonic() >= end:
            within = "" if found.never else f" for {seconds:g} s"
            raise NotSeenError(f"waited{within} for {wanted}; {found.told}")
        now = time.monotonic()
        pause = max(_PAUSE, now - began, _SHARE * (now - start))  # the broker has other work too
        await asyncio.sleep(min(pause, max(end - now, _PAUSE)))
        began = time.monotonic()
    return found


async def _looked(look: Callable[[], Awaitable[T | NotYet]]) -> T | NotYet:
    """What is found; a partition may have no leader for a while, or too few replicas in sync."""
    try:
        return await look()
    except NotNowError as error:
        return NotYet(str(error))
