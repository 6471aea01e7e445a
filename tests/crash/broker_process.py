"""A broker process that tests kill and start again on the same directory and port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psutil

from tests.ports import free_ports

START_DEADLINE = 60.0
FREEZE_DEADLINE = 30.0
STOPPED = set("TZX")
"""The states of threads that do not run: stopped, or ended."""
FROZEN = STOPPED | {"D"}
"""These states, and that of a system call that no signal interrupts."""
SERVE = ("-m", "kafkapy", "serve")


class BrokerProcess:
    """Runs `python -m kafkapy serve`, or another script with the same options.

    `prefix` is a command that replaces itself by the broker, such as `prlimit`.
    """

    def __init__(
        self,
        data: Path,
        *,
        settings: dict[str, str] | None = None,
        program: Sequence[str] = SERVE,
        environment: dict[str, str] | None = None,
        log: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.port = free_ports(1)[0]
        self.log = log or data.parent / f"{data.name}.log"
        """The output of all runs of the broker."""
        self.dies = program != SERVE
        """Whether the script will end itself: start the broker again as `kafkapy serve` then."""
        self._settings = settings or {}
        self._program = program
        self._prefix = prefix
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> float:
        """Start, and wait until clients are accepted; the seconds that took.

        Raises:
            AssertionError: it did not, within START_DEADLINE; with what it wrote.
        """
        started = time.monotonic()
        self.launch()
        while not self._accepts():
            if not self.is_running or time.monotonic() - started > START_DEADLINE:
                self.kill()
                raise AssertionError(f"the broker does not start:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.005)
        return time.monotonic() - started

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of the process so far, which does not depend on the load of the machine."""
        assert self._process is not None
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def restart_as_itself(self) -> float:
        """Start `kafkapy serve` on this directory instead of the script; return the seconds."""
        self._program, self._prefix, self._environment, self.dies = SERVE, (), {}, False
        return self.start()

    def launch(self) -> None:
        """Start, and do not wait."""
        options = ["--data", str(self.data), "--listen", self.bootstrap_servers, "--log-level", "info"]
        for name, value in self._settings.items():
            options += ["--set", f"{name}={value}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, sys.executable, *self._program, *options],
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment},
            )

    def wait(self, seconds: float) -> int | None:
        """Wait until it has ended; its exit code, None if it still runs."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """SIGTERM, and do not wait."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP, as the function does, unless the process has ended."""
        assert self._process is not None
        if self._process.poll() is None:
            freeze(self.pid)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _accepts(self) -> bool:
        # The port is bound before the logs are recovered: a connection is not enough, an answer is needed.
        request = bytes.fromhex("0000000b 0012 0000 00000001 0001 78".replace(" ", ""))  # ApiVersions v0
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(request)
                return len(connection.recv(8)) == 8
        except OSError:
            return False


def freeze(pid: int) -> None:
    """SIGSTOP, and wait until no thread of a process computes any more.

    One that is in a system call ends that, and stops where it would return, once another has stopped.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + FREEZE_DEADLINE
    while (states := thread_states(pid)) and not (states <= FROZEN and states & STOPPED):
        assert time.monotonic() < deadline, states


def thread_states(pid: int) -> set[str]:
    """The states of the threads of a process (proc(5)); none of one that is gone."""
    states = set()
    with contextlib.suppress(OSError):
        for task in os.scandir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                states.add(Path(task.path, "stat").read_text().rpartition(") ")[2][0])
    return states
