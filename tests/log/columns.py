"""Record columns as records again, to be compared with what the slow decoder says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kafkapy.log.record_columns import Fields, RecordColumns
from kafkapy.protocol.records import Record


def records_of(columns: RecordColumns) -> list[Record]:
    """A record for each row.

    Raises UnicodeDecodeError for a header key that is not UTF-8.
    """
    keys, values = contents(columns, columns.keys), contents(columns, columns.values)
    names, header_values = contents(columns, columns.header_keys), contents(columns, columns.header_values)
    edges = [0, *np.cumsum(columns.header_counts).tolist()]
    headers = [
        [((names[slot] or b"").decode(), header_values[slot]) for slot in range(first, last)]
        for first, last in pairwise(edges)
    ]
    rows = zip(columns.offsets.tolist(), columns.timestamps.tolist(), keys, values, headers, strict=True)
    return [Record(*row) for row in rows]


def contents(columns: RecordColumns, fields: Fields) -> list[bytes | None]:
    """The bytes of each field."""
    data = bytes(columns.data)
    places = zip(fields.at.tolist(), fields.lengths.tolist(), strict=True)
    return [None if length < 0 else data[at : at + length] for at, length in places]
