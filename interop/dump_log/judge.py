"""Apache Kafka's own classes on a log directory: LogJudge.java and DumpLogSegments."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from interop.support.kafka_jars import java_command, program_command

_SECONDS = 120


def write_log(folder: Path, appends: Iterable[tuple[int, bool, bytes]], settings: Mapping[str, str]) -> None:
    """Have Kafka append (leader epoch, by a coordinator, batch) to a new log, and close it."""
    batches = folder.parent / "batches"
    with batches.open("wb") as file:
        for epoch, coordinator, batch in appends:
            file.write(struct.pack(">ibi", epoch, coordinator, len(batch)) + batch)
    folder.mkdir()
    _judge("write", str(folder), str(batches), *[f"{key}={value}" for key, value in settings.items()])


def read_log(folder: Path, *, clean: bool) -> dict[str, Any]:
    """Return what Kafka finds when it opens a log: offsets, segments, records, producers."""
    answer: dict[str, Any] = json.loads(_judge("read", str(folder), "clean" if clean else "unclean"))
    return answer


def dump(*files: Path, options: Iterable[str] = ()) -> str:
    """Return what kafka-dump-log prints about files of a log."""
    return _done(_dump(files, options)).stdout


def dump_problems(*files: Path, options: Iterable[str] = ()) -> str:
    """Return the errors that kafka-dump-log finds; it prints them on standard error."""
    return _done(_dump(files, options)).stderr


def _dump(files: Iterable[Path], options: Iterable[str]) -> list[str]:
    return [
        *java_command(),
        "org.apache.kafka.tools.DumpLogSegments",
        *options,
        "--files",
        ",".join(map(str, files)),
    ]


def _judge(*arguments: str) -> str:
    return _run([*program_command(Path(__file__).with_name("LogJudge.java")), *arguments])


def _run(command: list[str]) -> str:
    return _done(command).stdout


def _done(command: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
