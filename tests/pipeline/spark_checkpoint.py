"""Files of a Spark checkpoint; interop/spark tests with those of a real one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path

from kafkapy.pipeline.state import State

_SETTINGS = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {"spark.sql.shuffle.partitions": "2"}}


def begin(state: State, topic: str, offsets: Mapping[int, int]) -> None:
    """The first things that Spark and its Kafka source write."""
    _write(state, "metadata", '{"id":"00000000-0000-0000-0000-000000000000"}')
    _write(state, "sources/0/0", "\0v1\n" + _json(topic, offsets))


def plan(state: State, topic: str, batch: int, offsets: Mapping[int, int], *, at: int = 1) -> None:
    """A batch that was planned `at` milliseconds since 1970."""
    if not Path(state.checkpoint, "sources").exists():
        begin(state, topic, dict.fromkeys(offsets, 0))
    _write(
        state,
        f"offsets/{batch}",
        f"v1\n{json.dumps({**_SETTINGS, 'batchTimestampMs': at})}\n{_json(topic, offsets)}",
    )


def commit(state: State, topic: str, batch: int, offsets: Mapping[int, int], *, at: int = 1) -> None:
    plan(state, topic, batch, offsets, at=at)
    _write(state, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


def _json(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in offsets.items()}})


def _write(state: State, name: str, text: str) -> None:
    path = Path(state.checkpoint) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    sums = b"crc\0" + (512).to_bytes(4) + zlib.crc32(path.read_bytes()).to_bytes(4)
    path.with_name(f".{path.name}.crc").write_bytes(sums)
