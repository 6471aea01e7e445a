"""Verifiable clients: processes that tell what happens to them.

Each thing is a line of JSON.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from interop.support.kafka_jars import java_command

ENDED_BY_SIGTERM: Final = 143
"""The exit status of a Java program that has done what it does upon SIGTERM, such as to leave its group."""


class VerifiableClient:
    """`name` is that of the class in org.apache.kafka.tools."""

    def __init__(self, folder: Path, name: str, **flags: object) -> None:
        java, *rest = java_command()
        self._command = [java, "-Xmx128m", *rest, f"org.apache.kafka.tools.{name}"]
        for flag, value in flags.items():
            self._command += [f"--{flag.replace('_', '-')}", *([] if value is True else [str(value)])]
        self._log = folder / f"{name}.err"
        self.told: list[dict[str, Any]] = []

    def start(self) -> Self:
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, name="what a verifiable client tells")
        self._reader.start()
        return self

    def events(self, name: str) -> list[dict[str, Any]]:
        return [told for told in self.told if told["name"] == name]

    def stop(self) -> int:
        """SIGTERM: it leaves its group; its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        status = self._process.wait(120)
        self._reader.join(60)
        return status

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def output(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.told.append(json.loads(line))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def steady_producer(folder: Path, **flags: object) -> VerifiableClient:
    """A producer that tries again until each record is acknowledged.

    It spreads the records over the partitions.

    By default it tries each record once, and keeps to a partition for a long time.
    """
    properties = folder / "producer.properties"
    properties.write_text(
        "retries=2147483647\nenable.idempotence=true\nbatch.size=500\nreconnect.backoff.max.ms=500\n"
    )
    return VerifiableClient(folder, "VerifiableProducer", acks=-1, command_config=properties, **flags)


def given(consumer: VerifiableClient) -> set[tuple[int, int, str]]:
    """The records that a consumer was given: partition, offset and value."""
    return {(each["partition"], each["offset"], each["value"]) for each in consumer.events("record_data")}
