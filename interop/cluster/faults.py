"""What can happen to a cluster: each fault starts, and is healed.

`start` and `heal` do not wait for the brokers: other faults may be there at the same time. `parts` are what a
fault takes hold of; two that share one are not there at once.
"""

from __future__ import annotations

import random
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from interop.cluster.scene import BROKERS, Scene, broker_name
from interop.support.network_namespaces import CLIENTS, NetworkNamespaces
from tests.servers.server_process import ServerProcess

STOP_SECONDS: Final = 30.0
"""How long a broker may take to stop before it is killed."""


class Fault(ABC):
    """One fault of a scene."""

    name: str
    parts: frozenset[str]
    leaves_majority = True
    """Whether two brokers continue, with each other, with ZooKeeper and with the clients."""
    isolated: int | None = None
    """A broker that has its session with ZooKeeper, but not the other brokers.

    If it is the controller, no in-sync set can change while it lasts, as in Apache Kafka 3.9.
    """
    ends_session_of: int | None = None
    """A broker that ZooKeeper does not hear: other brokers must lead its partitions soon."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def heal(self) -> None: ...

    def __str__(self) -> str:
        return self.name


class _OfBroker(Fault):
    what: str

    def __init__(self, scene: Scene, number: int) -> None:
        super().__init__(scene)
        self.broker = scene.brokers[number]
        self.ends_session_of = number
        self.name = f"broker {number} is {self.what}"
        self.parts = frozenset({f"process {number}"})


class Killed(_OfBroker):
    """SIGKILL, and a start later."""

    what = "killed"

    def start(self) -> None:
        self.broker.kill()

    def heal(self) -> None:
        self.broker.launch()


class Stopped(_OfBroker):
    """SIGTERM, and a start later."""

    what = "stopped"

    def start(self) -> None:
        self.broker.process.terminate()

    def heal(self) -> None:
        try:
            self.broker.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.broker.kill()
        self.broker.launch()


class Paused(_OfBroker):
    """SIGSTOP; afterwards it may take itself for a leader or the controller, and is not."""

    what = "paused"

    def start(self) -> None:
        _send(self.broker, signal.SIGSTOP)

    def heal(self) -> None:
        _send(self.broker, signal.SIGCONT)


class ClockJumped(Fault):
    """The time of day of a broker jumps, and jumps back."""

    def __init__(self, scene: Scene, number: int, seconds: float) -> None:
        super().__init__(scene)
        self._clock, self._seconds = scene.clocks[number], seconds
        self.name = f"the clock of broker {number} jumps by {seconds:+g} s"
        self.parts = frozenset({f"clock {number}"})

    def start(self) -> None:
        self._clock.jump(self._seconds)

    def heal(self) -> None:
        self._clock.jump(0)


class _OfNetwork(Fault):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        assert scene.network is not None
        self.network: NetworkNamespaces = scene.network


class _Cut(_OfNetwork):
    """Packets are lost between hosts."""

    cuts: list[tuple[str, str]]
    """Each a host that sends, and one that does not hear it."""

    def start(self) -> None:
        for source, target in self.cuts:
            self.network.cut(source, target)

    def heal(self) -> None:
        for source, target in self.cuts:
            self.network.mend(source, target)


class CutOff(_Cut):
    """A broker and some others do not hear each other, or only one side hears the other."""

    def __init__(self, scene: Scene, number: int, others: str, way: str = "both") -> None:
        """`others`: brokers, zookeeper, clients or all; `way`: what is lost: in, out or both."""
        super().__init__(scene)
        names = {
            "brokers": [broker_name(each) for each in BROKERS if each != number],
            "zookeeper": scene.zookeeper_names,
            "clients": [CLIENTS],
        }
        names["all"] = [name for each in names.values() for name in each]
        here = broker_name(number)
        incoming = [(there, here) for there in names[others]]
        outgoing = [(here, there) for there in names[others]]
        self.cuts = {"in": incoming, "out": outgoing, "both": incoming + outgoing}[way]
        self.name = f"broker {number} and {others}: packets are lost, {way}"
        self.parts = frozenset({f"cut {number}"})
        if others == "brokers":
            self.isolated = number
        elif others != "clients":
            self.ends_session_of = number


class Parted(_Cut):
    """Two brokers do not hear each other; the third hears both, and both hear it.

    Each broker has a majority, and no two have the same.
    """

    def __init__(self, scene: Scene, common: int) -> None:
        super().__init__(scene)
        one, other = (each for each in BROKERS if each != common)
        self.cuts = [(broker_name(one), broker_name(other)), (broker_name(other), broker_name(one))]
        self.name = f"brokers {one} and {other}: packets are lost, both"
        self.parts = frozenset({"pair"})


class Lossy(_OfNetwork):
    """Some of the packets that arrive at a host are lost."""

    def __init__(self, scene: Scene, host: str, percent: int) -> None:
        super().__init__(scene)
        self._host, self._percent = host, percent
        self.name = f"{host} loses {percent} % of packets"
        self.parts = frozenset({f"loss {host}"})

    def start(self) -> None:
        self.network.lose(self._host, self._percent)

    def heal(self) -> None:
        self.network.lose(self._host, 0)


class Slow(_OfNetwork):
    """A host sends slowly, and late."""

    def __init__(self, scene: Scene, number: int) -> None:
        super().__init__(scene)
        self._host = broker_name(number)
        self.name = f"broker {number} sends slowly"
        self.parts = frozenset({f"speed {number}"})

    def start(self) -> None:
        self.network.slow_down(self._host)

    def heal(self) -> None:
        self.network.speed_up(self._host)


class ZooKeeperKilled(Fault):
    """One or all servers of the ensemble are killed, and started later."""

    def __init__(self, scene: Scene, indexes: tuple[int, ...]) -> None:
        super().__init__(scene)
        self._servers = [scene.zookeepers[index] for index in indexes]
        self.leaves_majority = 2 * len(indexes) < len(scene.zookeepers)
        self.name = f"ZooKeeper {', '.join(str(each + 1) for each in indexes)} is killed"
        self.parts = frozenset({"zookeeper"})

    def start(self) -> None:
        for server in self._servers:
            server.kill()

    def heal(self) -> None:
        for server in self._servers:
            server.launch()


class ZooKeeperPaused(Fault):
    """All servers of the ensemble are paused."""

    leaves_majority = False
    name = "ZooKeeper is paused"
    parts = frozenset({"zookeeper"})

    def start(self) -> None:
        for server in self.scene.zookeepers:
            _send(server, signal.SIGSTOP)

    def heal(self) -> None:
        for server in self.scene.zookeepers:
            _send(server, signal.SIGCONT)


def _send(server: ServerProcess, number: signal.Signals) -> None:
    if server.running:
        server.process.send_signal(number)


Draw = Callable[[Scene, random.Random, int], Fault]
"""Makes a fault of this scene by chance; the number is of the broker that it should meet."""

_PROCESSES: Final[list[Draw]] = [
    lambda scene, _, broker: Killed(scene, broker),
    lambda scene, _, broker: Paused(scene, broker),
    lambda scene, _, broker: Paused(scene, broker),
    lambda scene, _, broker: Stopped(scene, broker),
    lambda scene, chance, broker: ClockJumped(scene, broker, chance.choice((-60, 60, -3600, 86400))),
    lambda scene, chance, _: ZooKeeperKilled(scene, (chance.randrange(len(scene.zookeepers)),)),
    lambda scene, _, __: ZooKeeperKilled(scene, tuple(range(len(scene.zookeepers)))),
    lambda scene, _, __: ZooKeeperPaused(scene),
]
_NETWORK: Final[list[Draw]] = [
    lambda scene, chance, broker: CutOff(scene, broker, "brokers", chance.choice(("both", "in", "out"))),
    lambda scene, chance, broker: CutOff(scene, broker, "zookeeper", chance.choice(("both", "in", "out"))),
    lambda scene, chance, broker: CutOff(scene, broker, "clients", chance.choice(("both", "in", "out"))),
    lambda scene, chance, broker: CutOff(scene, broker, "all", chance.choice(("both", "in", "out"))),
    lambda scene, _, broker: Parted(scene, broker),
    lambda scene, chance, broker: Lossy(scene, broker_name(broker), chance.choice((5, 15, 30))),
    lambda scene, chance, _: Lossy(scene, chance.choice(scene.zookeeper_names), 30),
    lambda scene, _, broker: Slow(scene, broker),
]


def draws(scene: Scene) -> list[Draw]:
    """The kinds of faults that this scene can have."""
    return _PROCESSES if scene.network is None else [*_PROCESSES, *_NETWORK]
