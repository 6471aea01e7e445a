"""Runs ShareWorker.java, and collects what its processes say."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

from interop.support.kafka_jars import program_command

PROGRAM = Path(__file__).with_name("ShareWorker.java")


class Said(NamedTuple):
    """What a worker said of a record, after it was stored."""

    partition: int
    offset: int
    delivery_count: int
    number: int
    what: str


class Worker:
    """A process; a context manager that lets it leave the group."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str, *properties: str) -> None:
        self._process = subprocess.Popen(
            [*program_command(PROGRAM), bootstrap_servers, group, topic, *properties],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.said: list[Said] = []
        """What was stored."""
        self.tried: set[int] = set()
        """The records of which something may have been stored."""
        self._reader = threading.Thread(target=self._read, name="a worker's output")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            mark, partition, offset, count, number, what = line.split()
            if mark == "?":
                self.tried.add(int(number))
            else:
                self.said.append(Said(int(partition), int(offset), int(count), int(number), what.upper()))

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """Let it leave the group."""
        assert self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.close()
        self._end()

    def _end(self) -> None:
        self._process.wait(60)
        self._reader.join(30)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self.stop() if error[0] is None else self.kill()
