"""The condition for the rows that a reset deletes from a table."""

from __future__ import annotations

from collections.abc import Mapping


def at_or_after(positions: Mapping[int, int], partition: str = "_partition") -> str:
    """The SQL condition that a row is at or after the offset of its partition.

    Empty without positions.
    """
    parts = (f"({partition} = {int(p)} AND _offset >= {int(offset)})" for p, offset in positions.items())
    return " OR ".join(parts)
