"""The base class of brokers that run as processes of their own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.support.probe import parse_address


class ServerStartError(Exception):
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

    def output(self, last: int = 40) -> str:
        """The last lines that the server printed."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-last:])

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM, and SIGKILL if that is not enough; the exit status."""
        if self.running:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(timeout)
        return self.kill()

    def kill(self) -> int:
        if self.running:
            self.process.send_signal(signal.SIGKILL)
        return self.process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
