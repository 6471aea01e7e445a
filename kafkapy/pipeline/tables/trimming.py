"""Which rows a reset takes out of a table."""

from __future__ import annotations

from collections.abc import Mapping


def at_or_after(positions: Mapping[int, int], partition: str = "_partition") -> str:
    """The condition, as SQL, that a row lies at or after the offset of its partition.

    It is empty when there are no positions.
    """
    parts = (f"({partition} = {int(p)} AND _offset >= {int(offset)})" for p, offset in positions.items())
    return " OR ".join(parts)
