"""A Java process with one release's message classes: Oracle.java on a pipe."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from types import TracebackType
from typing import Any

from interop.support.java_programs import compiled
from interop.support.maven import CACHE, Coordinates, copy_jars

CURRENT = "4.4.0"
LAST_WITH_ZOOKEEPER = "3.9.1"

_ARTIFACTS = ["clients", "metadata", "raft", "storage", "group-coordinator", "transaction-coordinator"]
_CURRENT_ARTIFACTS = [*_ARTIFACTS, "share-coordinator"]


class Oracle:
    """Raises JarsUnavailableError when the release cannot be had."""

    def __init__(self, release: str) -> None:
        names = _CURRENT_ARTIFACTS if release == CURRENT else _ARTIFACTS
        jars = [Coordinates("org.apache.kafka", f"kafka-{name}", release) for name in names]
        libraries = copy_jars(jars, CACHE / "kafka-messages" / release)
        source = Path(__file__).with_name("Oracle.java")
        command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *compiled(source, libraries)]
        self.release = release
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def versions(self, name: str) -> range:
        """The versions that this release has of a message, none if it does not know it."""
        answer = self._ask({"op": "versions", "name": name})
        return range(answer["first"], answer["last"] + 1) if answer else range(0)

    def read(self, name: str, version: int, data: bytes) -> tuple[dict[str, Any], bytes, int]:
        """The message as JSON, as Kafka writes it again, and how many bytes it left unread."""
        question = {"op": "read", "name": name, "version": version, "data": b64encode(data).decode()}
        answer = self._ask(question)
        return answer["json"], b64decode(answer["data"]), answer["left"]

    def shown_in(self, name: str, version: int, data: bytes, other: int) -> dict[str, Any] | None:
        """Return a message of one version as JSON of another, with defaults for fields it lacked.

        None if Kafka refuses, because the other version cannot hold a value.
        """
        question = {"op": "raise", "name": name, "version": version, "to": other}
        answer = self._ask({**question, "data": b64encode(data).decode()})
        return answer.get("json")

    def write(self, name: str, version: int, message: dict[str, Any]) -> bytes:
        question = {"op": "write", "name": name, "version": version, "json": message}
        return b64decode(self._ask(question)["data"])

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, f"Kafka {self.release}: {answer['error']} for {question}"
        return answer
