"""The settings of simulated brokers: small files, and much that happens soon."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

SETTINGS: Final[Mapping[str, str]] = {
    "durability": "fsync",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.enable": "false",
    "log.roll.ms": "1500",
    "log.flush.offset.checkpoint.interval.ms": "700",
    "log.flush.start.offset.checkpoint.interval.ms": "900",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.index.interval.bytes": "200",
    "log.index.size.max.bytes": "4096",
    "log.segment.delete.delay.ms": "1000",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "true",
}


def random_settings(chance: random.Random) -> dict[str, str]:
    """Settings that differ from run to run."""
    return {
        "background.threads": str(chance.choice((2, 4))),
        "log.check.on.first.read": chance.choice(("true", "false")),
    }
