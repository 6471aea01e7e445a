"""The faults of brokers that are switched on, and how the parts of a broker meet them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafkapy.faults import disks
from kafkapy.faults.connections import ConnectionFault, Refusal
from kafkapy.faults.disks import DiskFault
from kafkapy.faults.dispatcher import FaultyDispatcher
from kafkapy.faults.fault import Fault, Often
from kafkapy.faults.request_fault import RequestFault

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore


class SwitchedOn:
    """The faults that are switched on; any thread may change them."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after a change, and has the broker's loop call `lead`."""
        self.faults: tuple[Fault, ...] = ()
        self.of_cluster: SwitchedOn | None = None
        """Those of all brokers of its cluster, which a broker meets after its own."""
        self._changed = changed
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def add(self, fault: Fault, how_often: Often) -> None:
        """Switch a fault on."""
        with self._lock:
            fault.switched_on(next(self._numbers), how_often, lambda gone: self.remove((gone,)))
            self.faults = (*self.faults, fault)
        self._changed()

    def remove(self, gone: Iterable[Fault]) -> None:
        """Switch faults off."""
        with self._lock:
            self.faults = tuple(fault for fault in self.faults if fault not in gone)
        self._changed()

    @property
    def met(self) -> tuple[Fault, ...]:
        """All that the broker meets."""
        return self.faults if self.of_cluster is None else (*self.faults, *self.of_cluster.faults)

    async def lead(self, core: BrokerCore) -> None:
        """Lead requests, new connections and calls of the disk to the faults, if there are any."""
        faults, dispatcher = self.met, core.loopback.dispatcher
        of_requests = tuple(each for each in faults if isinstance(each, (RequestFault, ConnectionFault)))
        core.server.shared.dispatcher = (
            FaultyDispatcher(dispatcher, core.metadata, of_requests) if of_requests else dispatcher
        )
        refusals = tuple(each for each in faults if isinstance(each, Refusal))
        core.server.refuses = lambda listener, host: any(each.refuses(listener, host) for each in refusals)
        disks.lead(core.logs, tuple(each for each in faults if isinstance(each, DiskFault)))
