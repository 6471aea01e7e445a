"""A broker in a process of its own, to be killed and started again on the same directory and port."""

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
"""States of threads that compute nothing: stopped, or over."""
FROZEN = STOPPED | {"D"}
"""And in a system call that no signal ends."""
SERVE = ("-m", "kafkapy", "serve")


class BrokerProcess:
    """Runs `python -m kafkapy serve`, or another script that takes the same options; `prefix` is a command
    that runs it, as itself."""

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
        """What the broker writes, of all its runs."""
        self.dies = program != SERVE
        """It will not serve for long: start it again, as `kafkapy serve`, to go on."""
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
        """What the process has computed so far: how long a start takes, whatever else the machine does."""
        assert self._process is not None
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def restart_as_itself(self) -> float:
        """Start `kafkapy serve` on this directory, whatever ran on it before; the seconds that took."""
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
        """SIGSTOP, and wait until no thread computes any more.

        One that is in a system call ends that, and stops where it would return, once another has stopped.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + FREEZE_DEADLINE
        while (states := thread_states(self.pid)) and not (states <= FROZEN and states & STOPPED):
            assert time.monotonic() < deadline, states

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


def thread_states(pid: int) -> set[str]:
    """The states of the threads of a process (proc(5)); none of one that is gone."""
    states = set()
    with contextlib.suppress(OSError):
        for task in os.scandir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                states.add(Path(task.path, "stat").read_text().rpartition(") ")[2][0])
    return states
