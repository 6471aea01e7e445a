"""A broker in virtual time, as a test sees it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from kafkapy.broker.core import BrokerCore
from kafkapy.faults.disks import DiskFault
from kafkapy.faults.fault import AsyncFault
from kafkapy.faults.faults import Faults, awaitable
from kafkapy.faults.switched_on import SwitchedOn
from kafkapy.observe.broker import AwaitedBroker
from kafkapy.virtual.broker import SimulatedBroker

T = TypeVar("T")

_NOT_RUNNING: Final = "broker {} is not running; start it first"
_STOPPED: Final = "broker {} was stopped meanwhile"


class VirtualBroker(AwaitedBroker):
    """A broker of a `VirtualCluster`: writes and reads without a client, and waits."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker
        self._asked: dict[asyncio.Future[Any], None] = {}
        """The calls that it has not answered."""
        self.switched_on = SwitchedOn(self.lead_to_faults)
        """Its faults."""
        broker.serves = lambda core: self.lead_to_faults()
        broker.ended = self._ended

    @property
    def faults(self) -> Faults[AsyncFault]:
        """What it does wrong on purpose, as `Broker.faults`.

        What is switched on stays so when it is started again.
        """
        return awaitable(self.switched_on)

    @property
    def is_paused(self) -> bool:
        """Whether it is held."""
        return self._broker.loop is not None and self._broker.loop.is_paused

    def require_unpaused(self) -> None:
        """Raise RuntimeError if it is paused."""
        if self.is_paused:
            raise RuntimeError(f"broker {self._broker.node_id} is paused; resume it first")

    async def call(self, function: Callable[[BrokerCore], Coroutine[Any, Any, T]]) -> T:
        """Run `function(core)` on the broker's loop and return its result.

        Raises:
            RuntimeError: the broker is not running or paused, or is stopped meanwhile.
        """
        core, loop = self._broker.core, self._broker.loop
        if core is None or loop is None or not self._broker.is_serving:
            raise RuntimeError(_NOT_RUNNING.format(self._broker.node_id))
        self.require_unpaused()
        here = asyncio.get_running_loop()
        answer: asyncio.Future[T] = here.create_future()
        self._asked[answer] = None

        def answered(task: asyncio.Task[T]) -> None:
            if not answer.done():
                error = task.exception() if not task.cancelled() else asyncio.CancelledError()
                if error is None:
                    answer.set_result(task.result())
                else:
                    answer.set_exception(error)

        task = loop.create_task(function(core))
        task.add_done_callback(lambda task: here.call_soon(answered, task))
        try:
            return await answer
        finally:
            del self._asked[answer]

    _call = call

    def lead_to_faults(self) -> None:
        """Have a running broker meet its faults as they are now."""
        require_one_directory(self.switched_on)
        self._broker.break_disk(tuple(each for each in self.switched_on.met if isinstance(each, DiskFault)))
        if self._broker.core is not None and self._broker.is_serving:
            with contextlib.suppress(StopIteration):  # it waits for nothing
                self.switched_on.lead(self._broker.core).send(None)

    def _ended(self) -> None:
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(RuntimeError(_STOPPED.format(self._broker.node_id)))


def require_one_directory(switched_on: SwitchedOn) -> None:
    """Switch faults of log directories off that are named, and raise ValueError."""
    disks = (each for each in switched_on.faults if isinstance(each, DiskFault))
    if elsewhere := [each for each in disks if each.log_dir is not None]:
        switched_on.remove(elsewhere)
        raise ValueError("in virtual time a broker has one log directory: leave log_dir out")
