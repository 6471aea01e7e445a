"""Pieces of a trace that may be long and grow: the last exchanges, those before and since.

A position is that of a line in the file, in bytes. Only whole lines are read: the last one may be under way.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Generic, TypeVar

from kafkapy.errors import UserError
from kafkapy.trace.exchange import Exchange
from kafkapy.trace.trace_file import exchange_in

T = TypeVar("T")

MOST_LINE: Final = 16 * 1024 * 1024
"""Longer lines are left out: frames of 6 MiB and more."""

_HEAD: Final = 32
_BLOCK: Final = 1024 * 1024
_MOST_BYTES: Final = 64 * 1024 * 1024
"""A piece is found in so many bytes at most; one can continue from there."""


@dataclass(frozen=True)
class Piece(Generic[T]):
    """What was taken of exchanges; the next piece begins at `position`."""

    found: list[T]
    position: int
    is_at_end: bool
    """Whether there is nothing more in this direction."""
    left_out: int = 0
    """How many were too many."""


Take = Callable[[int, Exchange], T | None]
"""Makes what is shown of an exchange and its position; None leaves it out."""


class Pieces:
    """Reads a trace that `kafkapy trace --write` writes, or has written.

    Args:
        path: the file, which need not be there yet.
        block: how many bytes are read at once on the way back.
        most_line: the bytes of the longest line that counts; longer ones are left out.
    """

    def __init__(self, path: Path, *, block: int = _BLOCK, most_line: int = MOST_LINE) -> None:
        self.path = path
        self._block, self._most_line = block, most_line

    def end(self) -> int:
        """Where the last whole line ends.

        Raises:
            UserError: the file is not there, or is no trace.
        """
        with self._open() as file:
            return _end_of_lines(file, file.seek(0, 2), self._block)

    def before(self, position: int, take: Take[T], most: int, seconds: float) -> Piece[T]:
        """What is taken of the last exchanges before a position, the newest first.

        Raises:
            UserError: as `end`.
        """
        found: list[T] = []
        deadline = time.monotonic() + seconds
        with self._open() as file:
            begin = at = _end_of_lines(file, min(position, file.seek(0, 2)), self._block)
            for at, line in _lines_back(file, begin, self._block, self._most_line):
                exchange = exchange_in(line)
                if exchange is not None and (taken := take(at, exchange)) is not None:
                    found.append(taken)
                if len(found) == most or begin - at > _MOST_BYTES or time.monotonic() > deadline:
                    return Piece(found, at, is_at_end=at == 0)
        return Piece(found, 0, is_at_end=True)

    def since(self, position: int, take: Take[T], most: int, seconds: float) -> Piece[T]:
        """What is taken of the exchanges from a position on: the last `most`, the oldest first.

        Raises:
            UserError: as `end`.
        """
        found: deque[T] = deque(maxlen=most)
        count = 0
        deadline = time.monotonic() + seconds
        with self._open() as file:
            size = file.seek(0, 2)
            at = begin = _line_start(file, min(position, size), self._block)
            while at - begin < _MOST_BYTES and time.monotonic() < deadline:
                line = file.readline(self._most_line)
                if len(line) == self._most_line and not line.endswith(b"\n"):
                    at = _line_start(file, at + len(line), self._block)
                    continue
                if not line.endswith(b"\n"):
                    break
                exchange = exchange_in(line)
                if exchange is not None and (taken := take(at, exchange)) is not None:
                    found.append(taken)
                    count += 1
                at += len(line)
        return Piece(list(found), at, is_at_end=at >= size, left_out=count - len(found))

    def at(self, position: int) -> Exchange:
        """The exchange at a position; raises UserError, also if there is none."""
        with self._open() as file:
            if position <= file.seek(0, 2) and _line_start(file, position, self._block) == position:
                exchange = exchange_in(file.readline(self._most_line))
                if exchange is not None and exchange.request:
                    return exchange
        raise UserError(f"{self.path} has no request at {position}")

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            with self.path.open("rb") as file:
                head = file.read(_HEAD)
                if head and not head.startswith(b'{"kafkapy_trace":'):
                    raise UserError(f"{self.path}: is no trace that `kafkapy trace --write` wrote")
                yield file
        except OSError as error:
            raise UserError(
                f"{self.path}: {error.strerror}; `kafkapy trace --write {self.path}` writes it"
            ) from None


def _line_start(file: BinaryIO, position: int, block_bytes: int) -> int:
    """The first position from this one on at which a line begins, or the end.

    The file is there then.
    """
    if position == 0:
        return file.seek(0)
    at = file.seek(position - 1)
    while (block := file.read(block_bytes)) and (found := block.find(b"\n")) < 0:
        at += len(block)
    return file.seek(at + found + 1 if block else at)


def _end_of_lines(file: BinaryIO, size: int, block: int) -> int:
    """Where the last whole line ends."""
    at = size
    while at:
        begin = max(at - block, 0)
        file.seek(begin)
        if (found := file.read(at - begin).rfind(b"\n")) >= 0:
            return begin + found + 1
        at = begin
    return 0


def _lines_back(file: BinaryIO, end: int, block: int, most_line: int) -> Iterator[tuple[int, bytes]]:
    """The lines before the beginning of one, with their positions, from the last to the first."""
    at, held = end, b""
    is_long = False
    while at:
        begin = max(at - block, 0)
        file.seek(begin)
        held = file.read(at - begin) + held
        at = begin
        first, *lines, _ = held.split(b"\n")
        place = at + len(held)
        for line in reversed(lines):
            place -= len(line) + 1
            if not is_long and len(line) < most_line:
                yield place, line
            is_long = False
        held = first + b"\n"
        if len(held) > most_line:
            held, is_long = b"\n", True
    if end and not is_long and len(held) <= most_line:
        yield 0, held[:-1]
