"""A program of Kafka Streams, which is killed and started again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import streams_command

PROTOCOLS: Final[Mapping[str, Mapping[str, str]]] = {
    "classic": {
        "group.protocol": "classic",
        "consumer.session.timeout.ms": "3000",
        "consumer.heartbeat.interval.ms": "500",
    },
    "streams": {"group.protocol": "streams"},
}
"""The settings of the application for each protocol of groups; those of streams groups are the broker's."""


class StreamsProgram:
    """The program, which continues with its state when it is started again."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def lines(self) -> list[str]:
        """What it has printed."""
        return self._log.read_text(errors="replace").splitlines() if self._log.exists() else []

    def output(self) -> str:
        return "\n".join(self.lines()[-30:])


@contextmanager
def streams_program(
    source: Path,
    servers: str,
    application: str,
    folder: Path,
    topics: Sequence[str],
    settings: Mapping[str, str],
) -> Iterator[StreamsProgram]:
    """A program with its state and its output in `folder`.

    It is not started, and it is killed in the end. In names of settings _ stands for a dot.
    """
    folder.mkdir(exist_ok=True)
    given = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
    with skipped_without_jars():
        command = [*streams_command(source), servers, application, str(folder / "state"), *topics, *given]
    program = StreamsProgram(command, folder / "streams.out")
    try:
        yield program
    finally:
        program.kill()
