"""Files of a Spark checkpoint; interop/spark tests with those of a real one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kafkapy.pipeline.state import State

_SETTINGS = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {"spark.sql.shuffle.partitions": "2"}}


def begin(state: State, topic: str, offsets: Mapping[int, int]) -> None:
    """The first thing that Spark's Kafka source writes."""
    _write(state, "sources/0/0", "\0v1\n" + _json(topic, offsets))


def plan(state: State, topic: str, batch: int, offsets: Mapping[int, int]) -> None:
    _write(state, f"offsets/{batch}", f"v1\n{json.dumps(_SETTINGS)}\n{_json(topic, offsets)}")


def commit(state: State, topic: str, batch: int, offsets: Mapping[int, int]) -> None:
    plan(state, topic, batch, offsets)
    _write(state, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


def _json(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in offsets.items()}})


def _write(state: State, name: str, text: str) -> None:
    path = Path(state.checkpoint) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0")
