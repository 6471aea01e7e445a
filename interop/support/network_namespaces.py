"""Hosts in network namespaces on one bridge, between which packets can be lost.

    with NetworkNamespaces(["b1", "b2"]) as network:
        network.host("b1")               # where a process starts
        network.cut("b1", "b2")          # b2 hears nothing of b1 any more; b1 still hears b2
        network.restore()

The tests themselves are the host `CLIENTS`. A filter of nftables drops packets where they arrive, without an
answer, as a broken switch does: connections stay open at both ends. Needs root, `ip` and `nft`, hence
`why_not`.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from types import TracebackType
from typing import Final, Self

from interop.support.debian import installed
from interop.support.host import Host

CLIENTS: Final = "clients"


@cache
def why_not() -> str:
    """Why there can be no network namespaces here; empty if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for command, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if not shutil.which(command):
            return f"network namespaces need the command {command} (Debian: apt-get install {package})"
    if problem := installed("nft", "nftables"):
        return problem
    try:
        with NetworkNamespaces(["probe"]) as network:
            network.cut(CLIENTS, "probe")
    except OSError as error:
        return f"network namespaces cannot be made: {error}"
    return ""


class NetworkNamespaces:
    """A namespace for each of `names`; raises OSError if the kernel refuses."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [CLIENTS, *names]
        self._cuts: set[tuple[str, str]] = set()
        self._losses: dict[str, int] = {}
        self._slow: set[str] = set()
        self._made = ExitStack()
        self._bridge = ""
        self._net = 0

    def host(self, name: str) -> Host:
        # `ip netns exec` would copy all mounts: a disk of another test would stay mounted with the process.
        return Host(self._address(name), ("nsenter", f"--net=/run/netns/{self._namespace(name)}"))

    def cut(self, source: str, target: str) -> None:
        """Drop what `source` sends to `target`."""
        self._cuts.add((source, target))
        self._filter(source, target)

    def mend(self, source: str, target: str) -> None:
        self._cuts.discard((source, target))
        self._filter(source, target)

    def lose(self, name: str, percent: int) -> None:
        """Drop so many of the packets that arrive at a host, chosen at random."""
        self._losses[name] = percent
        self._filter(name)

    def slow_down(self, name: str, bits_per_second: int = 2_000_000) -> None:
        """Let a host send no faster; what waits is delayed by up to a second, and then lost."""
        self._slow.add(name)
        rate = ("root", "tbf", "rate", str(bits_per_second), "burst", "32kb", "latency", "1s")
        self._within(name, "tc", "qdisc", "replace", "dev", "eth0", *rate)

    def speed_up(self, name: str) -> None:
        self._slow.discard(name)
        self._within(name, "tc", "qdisc", "del", "dev", "eth0", "root")

    def restore(self) -> None:
        """A whole network again."""
        self._cuts.clear()
        self._losses.clear()
        for name in list(self._slow):
            self.speed_up(name)
        self._filter(*self._names)

    def __enter__(self) -> Self:
        with self._made:
            self._make_bridge()
            for index, name in enumerate(self._names):
                if name != CLIENTS:
                    self._make_host(index, name)
            self._made = self._made.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._made.close()

    # --- how they are made --------------------------------------------------------------------------------

    def _make_bridge(self) -> None:
        """A bridge with a subnet that nobody else has: its name can be taken only once."""
        for net in random.sample(range(1, 255), 254):
            self._net, self._bridge = net, f"kfp{net}"
            with suppress(OSError):
                _run("ip", "link", "add", self._bridge, "type", "bridge")
                break
        else:
            raise OSError("no bridge can be made (ip link add type bridge)")
        self._made.callback(_run, "ip", "link", "del", self._bridge)
        _run("ip", "address", "add", f"{self._address(CLIENTS)}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")

    def _make_host(self, index: int, name: str) -> None:
        namespace, cable = self._namespace(name), f"{self._bridge}v{index}"
        _run("ip", "netns", "add", namespace)
        self._made.callback(_run, "ip", "netns", "del", namespace)
        _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "link", "set", cable, "master", self._bridge, "up")
        self._within(name, "ip", "link", "set", "lo", "up")
        self._within(name, "ip", "address", "add", f"{self._address(name)}/24", "dev", "eth0")
        self._within(name, "ip", "link", "set", "eth0", "up")

    def _namespace(self, name: str) -> str:
        return f"{self._bridge}-{name}"

    def _address(self, name: str) -> str:
        return f"10.203.{self._net}.{1 + self._names.index(name)}"

    def _within(self, name: str, *command: str, given: str = "") -> None:
        _run("ip", "netns", "exec", self._namespace(name), *command, given=given)

    # --- what is lost -------------------------------------------------------------------------------------

    def _filter(self, *names: str) -> None:
        """Tell the kernel what to drop at these hosts.

        What is for the clients is dropped where it is sent: this machine's own filter is left alone.
        """
        for name in names:
            if name == CLIENTS:
                continue
            arriving = [
                f"ip saddr {self._address(each)} drop" for each, to in sorted(self._cuts) if to == name
            ]
            leaving = [
                f"ip daddr {self._address(CLIENTS)} drop"
                for each, to in sorted(self._cuts)
                if each == name and to == CLIENTS
            ]
            if percent := self._losses.get(name):
                arriving.append(f"numgen random mod 100 < {percent} drop")
            chains = "".join(
                "\n".join([f"chain {hook} {{", f"type filter hook {hook} priority 0", *rules, "}\n"])
                for hook, rules in (("input", arriving), ("output", leaving))
            )
            script = f"add table ip faults\ndelete table ip faults\ntable ip faults {{\n{chains}}}\n"
            self._within(name, "nft", "-f", "-", given=script)


def _run(*command: str, given: str = "") -> None:
    run = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if run.returncode:
        raise OSError(f"{' '.join(command)}: {run.stderr.strip() or run.returncode}")
