"""What is not checked yet in a segment since the broker started (first_read.py)."""

from __future__ import annotations

from typing import Final, NamedTuple

_MOST_PIECES: Final = 64


class CheckedPiece(NamedTuple):
    """Bytes of a segment that were checked, and what comes after them."""

    start: int
    end: int
    end_offset: int
    leader_epoch: int


class Unchecked:
    """What of a segment is not checked yet: the first `size` bytes, less the checked pieces."""

    __slots__ = ("pieces", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.pieces: tuple[CheckedPiece, ...] = ()

    def piece_at(self, position: int) -> CheckedPiece | None:
        """The checked piece that goes on from `position`."""
        for piece in self.pieces:
            if piece.start <= position < piece.end:
                return piece
        return None

    def piece_before(self, position: int) -> CheckedPiece | None:
        """The checked piece that ends at `position`."""
        for piece in self.pieces:
            if piece.end == position:
                return piece
        return None

    def add(self, new: CheckedPiece) -> None:
        """Remember a piece, joined with those that it touches.

        If there are too many, the smallest is forgotten.
        """
        apart: list[CheckedPiece] = []
        for piece in self.pieces:
            if piece.end < new.start or piece.start > new.end:
                apart.append(piece)
            else:
                last = max(piece, new, key=lambda each: each.end)
                new = last._replace(start=min(piece.start, new.start))
        if len(apart) >= _MOST_PIECES:
            apart.remove(min(apart, key=lambda each: each.end - each.start))
        self.pieces = (*apart, new)
