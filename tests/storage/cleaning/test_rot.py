"""Compaction of a log whose files have rotted.

The damage stays as it is, and no key is overlooked.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.records import iter_headers
from kafkapy.storage.log.batches import BadBatchError
from tests.storage.cleaning.harness import (
    COMPACT,
    compact,
    compact_fully,
    compacted,
    fill,
    put,
    records_of,
)
from tests.storage.log_harness import (
    TP,
    names,
)


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


def test_a_damaged_batch_ends_the_pass_and_stays_as_it_is(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    path = Path(logs.log.segments.first.path)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadBatchError, match="damaged"):
        compact(logs.manager, logs.log)
    assert path.read_bytes() == data
    assert not [name for name in names(logs.path) if name.endswith((".cleaned", ".swap"))]


def test_a_base_offset_that_rotted_is_damage_though_the_crc_is_right(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    path = Path(logs.log.segments.first.path)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    data[size : size + 8] = (7_000_000).to_bytes(8, "big")
    path.write_bytes(data)
    with pytest.raises(BadBatchError):
        compact(logs.manager, logs.log)


def test_a_swap_that_is_damaged_keeps_the_log_offline(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    logs.log.flush()
    logs.crash()
    (logs.path / "00000000000000000000.log.swap").write_bytes(b"rot" * 50)
    logs.manager = logs.new_manager()
    with pytest.raises(KafkaError, match="compacted segment"):
        logs.manager.get(TP)
