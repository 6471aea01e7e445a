"""How fast a broker that was away catches up."""

from __future__ import annotations

import time
from typing import Final

from scripts.benchmarks.cluster.target import ClusterTarget
from scripts.benchmarks.load import Figures
from scripts.benchmarks.streaming import write_rows

_PARTITIONS: Final = 6
_RECORD_BYTES: Final = 1024
_MEGABYTES: Final = 500


def catch_up(target: ClusterTarget, scale: float) -> Figures:
    """Load: stop a broker, produce, start it, and wait until it is in sync everywhere."""
    topic = target.new_topic(_PARTITIONS)
    away = target.another()
    target.broker(away).stop(timeout=120)
    records = write_rows(
        target.client, topic, _PARTITIONS, _RECORD_BYTES, _MEGABYTES * scale, idempotent=True
    )
    target.wait_until_gone(away)
    megabytes = records * _RECORD_BYTES / 1e6
    before = target.meter.cpu_seconds()
    begun = time.perf_counter()
    target.broker(away).start(timeout=300)
    answered = time.perf_counter()
    target.wait_until_in_sync()
    done = time.perf_counter()
    figures = {
        "MB/s since its first answer": megabytes / (done - answered),
        "MB/s since its start": megabytes / (done - begun),
        "start to in sync, s": done - begun,
        "CPU s/GB": (target.meter.cpu_seconds() - before) / megabytes * 1000,
    }
    target.delete_topic(topic)
    return figures
