"""How long three brokers take to be a cluster, and what they hold when idle."""

from __future__ import annotations

import time
from pathlib import Path

from scripts.benchmarks.cluster.target import on_a_zookeeper
from scripts.benchmarks.load import Figures


def start(name: str, folder: Path) -> Figures:
    """Load: start three brokers at once on empty folders and an empty ZooKeeper."""
    with on_a_zookeeper(name, folder) as (target, _zookeeper):
        seconds = target.start()
        cpu_seconds = target.meter.cpu_seconds()
        time.sleep(5)  # idle
        return {
            "until three brokers and a controller are shown, s": seconds,
            "CPU seconds": cpu_seconds,
            "memory idle, MB": target.meter.resident_mb(),
            "memory idle, shared counted once, MB": target.meter.proportional_mb(),
        }
