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
def running(
    directory: Path,
    *settings: str,
    prefix: Sequence[str] = (),
    listen: str = "127.0.0.1:0",
    data: bool = True,
    config: str | None = None,
    lacking: str | None = None,
) -> Iterator[BrokerProcess]:
    """Run `kafkapy serve`, with its data in `directory`.

    Args:
        settings: KEY=VALUE.
        prefix: a command that replaces itself by the broker, such as `prlimit`.
        data: whether --data is given; `log.dirs` may be among the settings instead.
        config: the text of a server.properties.
        lacking: a module that cannot be imported.
    """
    directory.mkdir(exist_ok=True)
    log = directory / "stderr"
    options = ["--listen", listen]
    options += [option for setting in settings for option in ("--set", setting)]
    if data:
        options += ["--data", str(directory / "data")]
    if config is not None:
        (directory / "server.properties").write_text(config)
        options += ["--config", str(directory / "server.properties")]
    program = ["-m", "kafkapy"]
    if lacking is not None:
        absent = f"import sys; sys.modules[{lacking!r}] = None\n"
        program = ["-c", f"{absent}from kafkapy.cli import main; main()"]
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [*prefix, sys.executable, *program, "serve", *options],
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
