"""The brokers under test, each behind a proxy whose address it advertises.

with one_broker(tmp_path, KafkapyProcess, seed=1) as stage:
    Producer({"bootstrap.servers": stage.servers})
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from interop.exactly_once.frame_proxy import FrameProxy
from interop.support.cluster_processes import ClusterProcesses
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperProcess
from tests.ports import free_ports
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.probe import brokers_alive
from tests.servers.server_process import ServerProcess

SETTINGS: Final = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
"""Of the brokers: what was left open is aborted soon."""
CLUSTER: Final = {
    **SETTINGS,
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
BROKERS: Final = 3
START_SECONDS: Final = 120.0
"""Until a broker answers, on a machine whose cores have much else to do."""


class Stage(NamedTuple):
    """Started brokers, and the proxies before them."""

    brokers: list[ServerProcess]
    proxies: list[FrameProxy]

    @property
    def servers(self) -> str:
        """Where clients connect."""
        return ",".join(proxy.bootstrap_servers for proxy in self.proxies)

    @property
    def broker(self) -> ServerProcess:
        """The only broker."""
        (broker,) = self.brokers
        return broker

    @property
    def counts(self) -> Counter[str]:
        """How often which frames met which fate."""
        return sum((proxy.counts for proxy in self.proxies), Counter[str]())

    def restart_one(self, chance: random.Random) -> str:
        """SIGKILL, and start again; which one."""
        broker = chance.choice(self.brokers)
        assert broker.running, f"a broker ended by itself:\n{broker.output()}"
        broker.kill()
        broker.start(timeout=START_SECONDS)
        return broker.bootstrap_servers

    def quiet(self) -> None:
        """Nothing happens to frames any more."""
        for proxy in self.proxies:
            proxy.quiet = True


Make = Callable[[Path, Mapping[str, str]], KafkapyProcess | KafkaProcess]
"""Makes a broker in a folder, with these properties."""


@contextmanager
def one_broker(folder: Path, make: Make, *, seed: int) -> Iterator[Stage]:
    with ExitStack() as stack:
        broker, proxy = _behind_proxy(make(folder / "broker", SETTINGS), seed, stack)
        broker.start(timeout=START_SECONDS)
        yield Stage([broker], [proxy])
        assert broker.running, f"the broker ended:\n{broker.output()}"
        broker.stop()


@contextmanager
def cluster(folder: Path, make: Make, *, seed: int) -> Iterator[Stage]:
    """Three brokers on a ZooKeeper; they, too, reach each other through the proxies."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperProcess(folder / "zookeeper"))
        proxies: list[FrameProxy] = []

        def made(where: Path, properties: Mapping[str, str]) -> ServerProcess:
            broker, proxy = _behind_proxy(make(where, properties), seed + len(proxies), stack)
            proxies.append(proxy)
            return broker

        brokers = [*ClusterProcesses(folder, zookeeper, brokers=BROKERS, properties=CLUSTER, make=made)]
        for broker in brokers:
            broker.start(timeout=START_SECONDS)
        wait_until(lambda: all(brokers_alive(broker.address) == BROKERS for broker in brokers))
        yield Stage(brokers, proxies)
        assert all(broker.running for broker in brokers)


def _behind_proxy(
    broker: KafkapyProcess | KafkaProcess, seed: int, stack: ExitStack
) -> tuple[ServerProcess, FrameProxy]:
    """The broker, which ends with `stack`, and its proxy."""
    proxy = stack.enter_context(FrameProxy(broker.address, seed=seed))
    advertised = f"PLAINTEXT://{proxy.bootstrap_servers}"
    if isinstance(broker, KafkaProcess):
        # It speaks to itself as to any broker, which is not what the proxy is for.
        internal = f"INTERNAL://127.0.0.1:{free_ports(1)[0]}"
        broker.properties["listeners"] += f",{internal}"
        broker.properties["listener.security.protocol.map"] += ",INTERNAL:PLAINTEXT"
        broker.properties["inter.broker.listener.name"] = "INTERNAL"
        advertised += f",{internal}"
    broker.properties["advertised.listeners"] = advertised
    stack.callback(lambda: broker.kill() if hasattr(broker, "process") else None)
    return broker, proxy
