"""Sends and reads records with old and new Java clients (Client.java, Client08.java)."""

from __future__ import annotations

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

from interop.support.java_programs import compiled
from interop.support.kafka_jars import RELEASE, kafka_jars
from interop.support.maven import CACHE, Coordinates, copy_jars
from interop.support.records import Received, Record

RELEASES = ("0.8.2.2", "0.10.2.2", "2.8.2", RELEASE)
FIRST_WITH_SIMPLE_CONSUMER, FIRST_WITH_HEADERS = RELEASES[0], RELEASES[2]

_LOGGING = Coordinates("org.slf4j", "slf4j-nop", "1.7.36")
_JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_SECONDS = 120


class JavaClientError(Exception):
    """The program failed; the message is what it printed."""


def jars(release: str) -> Path:
    """The client of a release and what it needs; raises JarsUnavailableError."""
    if release == RELEASE:
        return kafka_jars()
    wanted = [Coordinates("org.apache.kafka", "kafka-clients", release)]
    if release == FIRST_WITH_SIMPLE_CONSUMER:
        # It brings a logging backend of its own.
        wanted.append(Coordinates("org.apache.kafka", "kafka_2.11", release))
    else:
        wanted.append(_LOGGING)
    return copy_jars(wanted, CACHE / "kafka-clients" / release)


def produce(
    release: str, bootstrap_servers: str, topic: str, records: Iterable[Record], *, codec: str = "none"
) -> list[int]:
    """Send all to partition 0; their offsets."""
    lines = "\n".join(map(_as_line, records))
    return [int(line) for line in run(release, "produce", bootstrap_servers, topic, codec, stdin=lines)]


def consume(release: str, bootstrap_servers: str, topic: str, count: int) -> list[Received]:
    """The first `count` records of partition 0, without a group."""
    return list(map(_as_received, run(release, "consume", bootstrap_servers, topic, str(count))))


def consume_in_group(
    release: str, bootstrap_servers: str, topic: str, count: int, group: str
) -> list[Received]:
    """The next `count` records for a group, which then commits."""
    return list(map(_as_received, run(release, "group", bootstrap_servers, topic, str(count), group)))


def run(release: str, *arguments: str, stdin: str = "") -> list[str]:
    """The lines that the release's program printed."""
    program = "Client08.java" if release == FIRST_WITH_SIMPLE_CONSUMER else "Client.java"
    command = [*_JAVA, *compiled(Path(__file__).with_name(program), jars(release)), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise JavaClientError(done.stdout[-2_000:] + done.stderr[-5_000:])
    return done.stdout.splitlines()


def _as_line(record: Record) -> str:
    headers = [f"{_as_word(key.encode())}:{_as_word(value)}" for key, value in record.headers]
    return " ".join([str(record.timestamp), _as_word(record.key), _as_word(record.value), *headers])


def _as_received(line: str) -> Received:
    offset, timestamp, key, value, *headers = line.split(" ")
    pairs = [word.split(":") for word in headers]
    found = tuple(((_as_bytes(name) or b"").decode(), _as_bytes(content)) for name, content in pairs)
    return Received(0, int(offset), Record(_as_bytes(key), _as_bytes(value), found, int(timestamp)))


def _as_word(content: bytes | None) -> str:
    return "-" if content is None else b64encode(content).decode()


def _as_bytes(word: str) -> bytes | None:
    return None if word == "-" else b64decode(word)
