"""A broker in a process of its own, as an operator starts it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

_LISTENING = re.compile(r"Listening on \w+://(\S+)\n")


class BrokerProcess:
    """A running `kafkapy serve`."""

    def __init__(self, process: subprocess.Popen[str], address: str, log: Path) -> None:
        self.process = process
        self.address = address
        self.log = log
        self._psutil = psutil.Process(process.pid)

    @property
    def rss(self) -> int:
        """Resident memory, in bytes."""
        memory: int = self._psutil.memory_info().rss
        return memory

    def terminate(self, number: int = signal.SIGTERM) -> int:
        """Stop it, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(20)


@contextmanager
def running(directory: Path, *settings: str, prefix: Sequence[str] = ()) -> Iterator[BrokerProcess]:
    """Run `kafkapy serve` on a free port, with its data in `directory`.

    `settings` are KEY=VALUE. `prefix` is a command that replaces itself by the broker, such as `prlimit`.
    """
    directory.mkdir(exist_ok=True)
    log = directory / "stderr"
    options = [option for setting in settings for option in ("--set", setting)]
    command = [*prefix, sys.executable, "-m", "kafkapy", "serve", "--listen", "127.0.0.1:0"]
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [*command, "--data", str(directory / "data"), *options],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    try:
        found = _LISTENING.match(process.stdout.readline())
        assert found is not None, log.read_text()
        yield BrokerProcess(process, found[1], log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(20)
        process.stdout.close()
