"""A scrape of many partitions does not hold up clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.metrics.prometheus import Served
from tests.metrics.test_scrapes import create
from tests.network.loop_watch import LoopWatch
from tests.ports import free_ports

TOPICS, PARTITIONS = 20, 100


def test_a_scrape_of_thousands_of_partitions_does_not_hold_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = LoopWatch(monkeypatch)
    (port,) = free_ports(1)
    with watch.broker(tmp_path, {"metrics.port": port}) as broker:
        for number in range(TOPICS):
            create(broker, f"topic-{number}", PARTITIONS)
        served = Served(broker, port)
        sizes = served.scrape().having("kafka_log_log_size")
        assert len(sizes) == TOPICS * PARTITIONS
        watch.check_each(served.page)
