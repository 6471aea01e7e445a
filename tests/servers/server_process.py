"""The base class of servers that run as processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.servers.probe import parse_address

FREEZE_DEADLINE = 30.0
STOPPED = set("TZX")
"""The states of threads that do not run: stopped, or ended."""
FROZEN = STOPPED | {"D"}
"""These states, and that of a system call that no signal interrupts."""


class ServerStartError(AssertionError):
    """Carries the end of what the server printed."""


class ServerProcess(ABC):
    """A started server: where it listens, its process id, its output; stopped by that id alone.

    Subclasses start it in `start()`, and set `process`, `bootstrap_servers`, `log_path` and `data`.
    """

    name: str
    version: str
    process: subprocess.Popen[bytes]
    bootstrap_servers: str
    log_path: Path
    """The output of all its runs."""
    data: Path
    """Its log directory."""

    @abstractmethod
    def start(self, timeout: float = 30.0) -> Self:
        """Start, and wait until it answers; raises ServerStartError."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> tuple[str, int]:
        return parse_address(self.bootstrap_servers)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of the process so far, which does not depend on the load of the machine."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    @property
    def rss(self) -> int:
        """Resident memory, in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def output(self, last: int = 40) -> str:
        """The last lines that the server printed."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-last:])

    def wait(self, seconds: float) -> int | None:
        """Wait until it has ended; its exit status, None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM, and SIGKILL if that is not enough; the exit status."""
        if self.running:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(timeout)
        return self.kill()

    def freeze(self) -> None:
        """SIGSTOP, and wait until no thread computes any more, unless the process has ended.

        A thread in a system call ends that, and stops where it would return, once another has stopped.
        """
        if not self.running:
            return
        os.kill(self.pid, signal.SIGSTOP)
        deadline = time.monotonic() + FREEZE_DEADLINE
        while (states := self.thread_states()) and not (states <= FROZEN and states & STOPPED):
            assert time.monotonic() < deadline, states

    def thread_states(self) -> set[str]:
        """The states of its threads (proc(5)); none if it is gone."""
        states = set()
        with contextlib.suppress(OSError):
            for task in os.scandir(f"/proc/{self.pid}/task"):
                with contextlib.suppress(OSError):
                    states.add(Path(task.path, "stat").read_text().rpartition(") ")[2][0])
        return states

    def kill(self) -> int:
        """SIGKILL, and wait until the process is gone; the exit status."""
        if self.running:
            self.process.send_signal(signal.SIGKILL)
        return self.process.wait()

    @contextlib.contextmanager
    def killed_at_end(self) -> Iterator[Self]:
        """Kill it after the block, which starts it in its own way."""
        try:
            yield self
        finally:
            if hasattr(self, "process"):
                self.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
