"""Every kind of fault that a producer may meet, for the tests of each client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafkapy import Broker
from kafkapy.faults.fault import Fault

OUTAGES: Final = ("pause", "kill", "disk")
"""What ends by itself: a broker that stands still, one that is killed, and a log directory that fails."""

_OUT_SECONDS: Final = 1.0


def switched_on(broker: Broker) -> list[Fault]:
    """A fault of each kind, in an order in which a producer of `orders` meets each once."""
    produce, connections = broker.faults.produce(topic="orders"), broker.faults.connections()
    disk = broker.faults.disk(topic="orders")
    return [
        connections.refuse(times=1),
        connections.drop(times=1),
        connections.delay(0.05, times=1),
        connections.slow_bytes(10_000, times=1),
        disk.slow(0.1, "write", times=1),
        disk.fill(times=1),
        produce.error("NOT_LEADER_OR_FOLLOWER", times=2),
        produce.delay(0.1, times=1),
        produce.twice(0.1, times=1),
        produce.disconnect(times=1),
        produce.disconnect(after_effect=True, times=1),
        produce.no_answer(times=1),
        produce.torn_answer(times=1),
        produce.slow_bytes(1000, times=1),
    ]


def unmet(faults: list[Fault]) -> list[str]:
    """The faults that nobody has met yet."""
    return [str(fault) for fault in faults if not fault.hits]


def two_directories(folder: Path) -> dict[str, str]:
    """The settings of a broker that stays when one of its log directories fails."""
    return {"log.dirs": f"{folder / 'one'},{folder / 'two'}"}


@contextmanager
def out(broker: Broker, how: str) -> Iterator[None]:
    """An outage from now on, of `disk` from its next write on; it ends by itself."""
    if how == "disk":
        failure = broker.faults.disk(topic="orders").fail("write", times=1)

        def end() -> None:
            failure.hit(within=60)
            broker.stop()
            broker.start()

        ending = threading.Thread(target=end)
    elif how == "pause":
        broker.pause()
        ending = threading.Timer(_OUT_SECONDS, broker.resume)
    else:
        broker.kill()
        ending = threading.Timer(_OUT_SECONDS, broker.start)
    ending.start()
    try:
        yield
    finally:
        ending.join()
