"""Compaction of a log whose files have rotted: no key is overlooked."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from kafkapy.protocol.records import iter_headers
from tests.storage.cleaning_harness import compact, compact_fully, records_of
from tests.storage.test_cleaning_log import COMPACT, compacted, fill, put


def test_an_index_that_leads_too_far_hides_no_key_from_the_map(tmp_path: Path) -> None:
    logs = compacted(tmp_path, replace(COMPACT, segment_bytes=6000))
    fill(logs.log, 60, keys=30)
    for _ in range(60):
        put(logs.log, b"another", b"value".ljust(100, b"."))
    compact(logs.manager, logs.log, map_bytes=24 * 12)
    cleaned = logs.log.cleaned_offset
    assert cleaned is not None
    segment = logs.log.segments.floor(cleaned)
    assert segment.base_offset < cleaned < logs.log.segments.active.base_offset
    *_, (last, _) = iter_headers(Path(segment.path).read_bytes())
    logs.log.close_files()
    Path(segment.path).with_suffix(".index").write_bytes(struct.pack(">ii", 1, last))
    compact_fully(logs.manager, logs.log)
    keys = [record.key for record in records_of(logs.log)]
    assert len(keys) == len(set(keys)) == 31
