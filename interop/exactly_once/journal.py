"""The history of several processes: each appends what it sees to a file of its own.

A line is a moment of the monotonic clock, which all processes of a machine share, and the events of that
moment. What a process is about to do is written before it is done, what it was told afterwards: then the
files, merged by their moments, are a history. A process may be killed within a line; what that line says was
not begun.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.promises import history
from tests.promises.history import Event, History, Partition, Source

SUFFIX: Final = ".journal"


class Journal:
    """The file of one process, or of one thread."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()

    def append(self, *events: Event, at: float | None = None) -> None:
        """Write events of this moment, or of the moment `at`."""
        line = [time.monotonic() if at is None else at, [[type(event).__name__, *event] for event in events]]
        with self._lock:
            os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


class JournaledHistory(History):
    """A history that is written to a journal instead of being kept."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def append(self, event: Event) -> None:
        self._journal.append(event)

    def extend(self, events: Iterable[Event]) -> None:
        self._journal.append(*events)


def merged(folder: Path) -> History:
    """The history of all files in `folder`."""
    lines = [line for path in sorted(folder.glob(f"*{SUFFIX}")) for line in _lines(path)]
    lines.sort(key=lambda line: float(line[0]))
    return [_event(*parts) for _, events in lines for parts in events]


def _lines(path: Path) -> Iterator[tuple[float, list[list[Any]]]]:
    *whole, _torn = path.read_bytes().split(b"\n")
    for line in whole:
        yield json.loads(line)


def _event(kind: str, *fields: Any) -> Event:
    made: Event = getattr(history, kind)(*(_place(each) if type(each) is list else each for each in fields))
    return made


def _place(value: list[Any]) -> Partition | Source:
    if len(value) == 2:
        return (value[0], value[1])
    group, partition, offset = value
    return Source(group, (partition[0], partition[1]), offset)
