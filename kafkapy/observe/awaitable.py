"""What an `AsyncBroker` gives tests to wait for, as coroutines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

from kafkapy.observe import group, topic, transaction
from kafkapy.observe.group import Member
from kafkapy.observe.record import Record
from kafkapy.observe.waiting import PATIENCE, NotSeenError

T = TypeVar("T")


class AsyncCall(Protocol):
    """Runs a coroutine function on a broker's loop, and returns its result."""

    async def __call__(self, function: Callable[[Any], Coroutine[Any, Any, T]], /) -> T: ...


class AsyncTopic:
    """A topic of a broker, which may not exist yet; see `blocking.Topic`."""

    def __init__(self, call: AsyncCall, name: str) -> None:
        self._call, self._name = call, name

    async def records(
        self, count: int | None = None, *, at_least: int | None = None, within: float = PATIENCE
    ) -> list[Record]:
        """Wait for `count` records, or for `at_least` so many; return them by partition and offset.

        Raises:
            NotSeenError: they have not come after `within` seconds, or there are more than `count`.
        """
        __tracebackhide__ = True
        return await _wait(self._call, topic.wait_for_records, self._name, count, at_least, within)

    async def empty(self, *, within: float = PATIENCE) -> None:
        """Wait until it has no records; raises NotSeenError if it has some after `within` seconds."""
        __tracebackhide__ = True
        await _wait(self._call, topic.wait_until_empty, self._name, within)


class AsyncGroup:
    """A group of a broker, of any type, which may not exist yet; see `blocking.Group`."""

    def __init__(self, call: AsyncCall, name: str) -> None:
        self._call, self._name = call, name

    async def stable(self, members: int | None = None, *, within: float = PATIENCE) -> list[Member]:
        """Wait until it is stable, with so many members; return these.

        Raises:
            NotSeenError: it is not after `within` seconds.
        """
        __tracebackhide__ = True
        return await _wait(self._call, group.wait_until_stable, self._name, members, within)

    async def caught_up(self, *, within: float = PATIENCE) -> None:
        """Wait until no record is left after its committed offsets, in all topics that it reads.

        Raises:
            NotSeenError: some are after `within` seconds.
        """
        __tracebackhide__ = True
        await _wait(self._call, group.wait_until_caught_up, self._name, within)

    async def committed(self, topic: str, partition: int, offset: int, *, within: float = PATIENCE) -> int:
        """Wait until it has committed this offset or a later one; return what it has committed.

        Raises:
            NotSeenError: it has not after `within` seconds.
        """
        __tracebackhide__ = True
        return await _wait(self._call, group.wait_for_commit, self._name, topic, partition, offset, within)

    async def lags(self) -> dict[tuple[str, int], int]:
        """By topic and partition, how many offsets it is behind now."""
        return await self._call(partial(group.lags_of, name=self._name))


class AsyncTransaction:
    """The last transaction of a transactional id; see `blocking.Transaction`."""

    def __init__(self, call: AsyncCall, name: str) -> None:
        self._call, self._name = call, name

    async def committed(self, *, within: float = PATIENCE) -> None:
        """Wait until it is committed; raises NotSeenError if it is not after `within` seconds."""
        __tracebackhide__ = True
        await _wait(self._call, transaction.wait_until_ended, self._name, transaction.COMMITTED, within)

    async def aborted(self, *, within: float = PATIENCE) -> None:
        """Wait until it is aborted; raises NotSeenError if it is not after `within` seconds."""
        __tracebackhide__ = True
        await _wait(self._call, transaction.wait_until_ended, self._name, transaction.ABORTED, within)


async def _wait(call: AsyncCall, function: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
    """Call `function(core, *args)`, and raise its failure where a report shows the test."""
    __tracebackhide__ = True
    try:
        return await call(lambda core: function(core, *args))
    except NotSeenError as error:
        told = str(error)
    raise NotSeenError(told)
