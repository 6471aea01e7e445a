"""Run kcat: send lines, read records back as they were."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from interop.support.records import Headers, Received, Record

_HEAD = re.compile(rb"(\d+) (\d+) (-?\d+) (-?\d+) (-?\d+) ")


class KcatError(Exception):
    """kcat failed; the message is what it printed."""


def kcat(bootstrap_servers: str, *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["kcat", "-b", bootstrap_servers, *arguments]
    run = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)
    if run.returncode:
        raise KcatError(run.stderr.decode(errors="replace"))
    return run.stdout


def produce(bootstrap_servers: str, topic: str, records: Sequence[Record], *options: str) -> None:
    """Send text records that share their headers; kcat sets the time itself."""
    (headers,) = {record.headers for record in records}
    lines = b"".join((record.key or b"") + b"\t" + (record.value or b"") + b"\n" for record in records)
    given = [part for name, value in headers for part in ("-H", f"{name}={(value or b'').decode()}")]
    kcat(bootstrap_servers, "-P", "-t", topic, "-K", "\t", *given, *options, stdin=lines)


def consume(bootstrap_servers: str, topic: str, *options: str) -> list[Received]:
    """Read to the end of every partition, or as the options say."""
    # Lengths come first, so that keys and values may hold anything; -1 is null.
    layout = "%p %o %T %K %S %k%s%h\n"
    return parse(kcat(bootstrap_servers, "-C", "-q", "-e", "-t", topic, "-f", layout, *options))


def parse(printed: bytes) -> list[Received]:
    received: list[Received] = []
    position = 0
    while head := _HEAD.match(printed, position):
        partition, offset, timestamp, key_size, value_size = map(int, head.groups())
        position = head.end()
        key = None if key_size < 0 else printed[position : position + key_size]
        position += max(0, key_size)
        value = None if value_size < 0 else printed[position : position + value_size]
        position += max(0, value_size)
        end = printed.index(b"\n", position)
        headers = _headers(printed[position:end])
        position = end + 1
        received.append(Received(partition, offset, Record(key, value, headers, timestamp)))
    assert position == len(printed), printed[position : position + 200]
    return received


def _headers(text: bytes) -> Headers:
    if not text:
        return ()
    pairs = (pair.partition(b"=") for pair in text.split(b","))
    return tuple((name.decode(), value) for name, _, value in pairs)
