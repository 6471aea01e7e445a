"""Several ZooKeepers that serve together as long as most of them run.

with ZooKeeperEnsemble(tmp_path) as ensemble, ClusterProcesses(tmp_path, ensemble) as cluster:
    ensemble.leader().kill()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.support.host import LOCAL, Host
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperProcess
from tests.ports import free_ports


class ZooKeeperEnsemble:
    """A ZooKeeper on each of `hosts`; a single one serves alone."""

    def __init__(self, folder: Path, hosts: Sequence[Host] = (LOCAL,) * 3) -> None:
        ports = free_ports(2 * len(hosts))
        members = "".join(
            f"server.{number}={host.address}:{ports.pop()}:{ports.pop()}\n"
            for number, host in enumerate(hosts, start=1)
        )
        # By default a session lasts 20 ticks at most.
        longest = "maxSessionTimeout=60000\n"
        together = f"initLimit=20\nsyncLimit=6\n{members}" if len(hosts) > 1 else ""
        self._servers = []
        for number, host in enumerate(hosts, start=1):
            home = folder / f"zookeeper-{number}"
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{number}\n")
            self._servers.append(ZooKeeperProcess(home, tick_ms=500, host=host, more=longest + together))
        self._started = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(server.bootstrap_servers for server in self)

    def __iter__(self) -> Iterator[ZooKeeperProcess]:
        return iter(self._servers)

    def __getitem__(self, index: int) -> ZooKeeperProcess:
        return self._servers[index]

    def __len__(self) -> int:
        return len(self._servers)

    def in_mode(self, mode: str) -> list[ZooKeeperProcess]:
        """The servers that are leader, follower or standalone."""
        return [server for server in self if server.running and server.mode() == mode]

    def leader(self) -> ZooKeeperProcess:
        """Wait until there is one."""
        return wait_until(lambda: self.in_mode("leader"))[0]

    def connections(self) -> int:
        """How many clients are connected."""
        return sum(server.connections() for server in self)

    def wait_until_whole(self) -> None:
        """Wait until all servers serve."""
        wait_until(lambda: all(server.running and server.mode() for server in self), timeout=60)

    def __enter__(self) -> Self:
        for server in self:
            server.launch()
            self._started.callback(server.kill)
        with ExitStack() as failed:
            failed.callback(self._started.close)
            self.wait_until_whole()
            failed.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._started.close()
