"""A written trace: exchanges as lines of JSON, which are only appended.

    {"kafkapy_trace": 1, "started": SECONDS}
    {"connection": 1, "client": "HOST:PORT", "broker": "HOST:PORT", "sent": SECONDS, "request": BASE64,
     "answered": SECONDS, "response": BASE64, "note": TEXT}

Each run begins with a line of the first form, and counts its connections anew. Lines of the second form are
one exchange each, in the order in which answers came. Times are seconds since 1970. Frames are the bytes on
the wire without their size, with secrets hidden and the addresses that the broker told. "answered" and
"response" are missing if there was no answer, "request" if the line is an event: its "note" tells it.

A crash may tear the last line. Readers leave out what is no such line; a writer begins a new line after it. A
format that readers of version 1 do not understand has a higher number; they ignore fields they do not know.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kafkapy.errors import UserError
from kafkapy.terminal.os_failure import writing
from kafkapy.trace.exchange import Exchange

VERSION: Final = 1
_MOST_SECONDS: Final = 253_402_214_400
"""Later times, of the last day of the year 9999 and after it, cannot be shown everywhere."""


class TraceWriter:
    """Appends exchanges to a file that only its owner can read: it has records and names.

    Raises:
        UserError: the file exists and is something else.
    """

    def __init__(self, path: Path) -> None:
        if path.is_file():
            for _ in read_trace(path):
                break
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._path, self._file = path, os.fdopen(descriptor, "ab")
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            self._file.write(b"\n")
        self._line({"kafkapy_trace": VERSION, "started": time.time()})

    def write(self, exchange: Exchange) -> None:
        """Append an exchange."""
        line: dict[str, Any] = {
            "connection": exchange.connection,
            "client": exchange.client,
            "broker": exchange.broker,
            "sent": exchange.sent,
        }
        request, response = exchange.without_secrets()
        if request:
            line["request"] = base64.b64encode(request).decode()
        if response is not None:
            line |= {"answered": exchange.answered, "response": base64.b64encode(response).decode()}
        if exchange.note:
            line["note"] = exchange.note
        self._line(line)

    def _line(self, line: dict[str, Any]) -> None:
        with writing(self._path):
            self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_trace(path: Path) -> Iterator[Exchange]:
    """The exchanges of a file; connections of a later run get numbers of their own.

    Raises:
        UserError: the file is no trace, or has a version that is not known.
    """
    before = last = 0
    begun = False
    with path.open("rb") as file:
        for text in file:
            line = _loaded(text)
            if line is not None and "kafkapy_trace" in line:
                if line["kafkapy_trace"] != VERSION:
                    raise UserError(
                        f"{path}: version {line['kafkapy_trace']} of traces; this release reads {VERSION}"
                    )
                begun, before = True, last
            elif not begun:
                raise UserError(f"{path}: is no trace that `kafkapy trace --write` wrote")
            elif line is not None and (exchange := _exchange(line, before)) is not None:
                last = max(last, exchange.connection)
                yield exchange


def exchange_in(text: bytes) -> Exchange | None:
    """The exchange of one line; None if the line begins a run, is torn or something else.

    Its connection is counted in its run.
    """
    line = _loaded(text)
    return None if line is None else _exchange(line, 0)


def _loaded(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _exchange(line: dict[str, Any], before: int) -> Exchange | None:
    """The exchange that a line tells; None if it tells none."""
    texts = [line.get("client"), line.get("broker"), line.get("note", ""), line.get("request", "")]
    response, connection = line.get("response"), line.get("connection")
    if response is not None:
        texts.append(response)
    times: list[Any] = [line.get("sent"), *([] if response is None else [line.get("answered")])]
    if not all(isinstance(each, str) for each in texts) or type(connection) is not int:
        return None
    if not all(type(each) in (int, float) and 0 <= each < _MOST_SECONDS for each in times):
        return None
    try:
        return Exchange(
            connection + before,
            line["client"],
            line["broker"],
            line["sent"],
            base64.b64decode(line.get("request", "")),
            None if response is None else line["answered"],
            None if response is None else base64.b64decode(response),
            line.get("note", ""),
        )
    except ValueError:
        return None
