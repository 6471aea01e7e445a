"""Creates the internal topics of streams groups, in the background (KIP-1071).

A heartbeat that finds topics missing is answered at once. Its member learns at one of its next heartbeats
that they are there, or why they could not be created. A topic that was refused is tried again after some
time.

Source: Apache Kafka's AutoTopicCreationManager (createStreamsInternalTopics), ExpiringErrorCache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kafkapy.controller.topic_plans import NewTopic
from kafkapy.loop.clock import Clock
from kafkapy.protocol.errors import KafkaError

MOST_REFUSALS: Final = 1_000
"""The refusals that are remembered. The oldest are forgotten first."""

logger = logging.getLogger(__name__)

CreateOnce = Callable[[Sequence[NewTopic]], Awaitable[Mapping[str, KafkaError]]]
"""Creates topics that nobody else is creating; returns the errors of those that are refused."""


class StreamsTopics:
    """Creates topics, and remembers for some time which could not be created."""

    def __init__(self, create: CreateOnce, clock: Clock) -> None:
        self._create = create
        self._clock = clock
        self._refusals: dict[str, tuple[float, str]] = {}
        """By topic, until when a refusal counts, in seconds of the monotonic clock, and the reason."""
        self._tasks: set[asyncio.Task[None]] = set()

    def create(self, wanted: Sequence[NewTopic], *, pause_seconds: float) -> dict[str, str]:
        """Begin to create topics; return why some of them were refused shortly before.

        A topic that is refused now is tried again after `pause_seconds`.
        """
        now = self._clock.monotonic()
        refused = {
            new.name: refusal[1]
            for new in wanted
            if (refusal := self._refusals.get(new.name)) is not None and refusal[0] > now
        }
        fresh = [new for new in wanted if new.name not in refused]
        if fresh:
            task = asyncio.get_running_loop().create_task(self._run(fresh, pause_seconds))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return refused

    async def stop(self) -> None:
        """Give up what is being created."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, wanted: Sequence[NewTopic], pause_seconds: float) -> None:
        try:
            errors = await self._create(wanted)
        except Exception:
            logger.exception("Internal topics of a streams group could not be created")
            return
        until = self._clock.monotonic() + pause_seconds
        for name, error in errors.items():
            self._refusals.pop(name, None)
            self._refusals[name] = until, error.message or error.code.name
        while len(self._refusals) > MOST_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
