"""Metrics of pipelines, as Prometheus scrapes them."""

from __future__ import annotations

import socket
import urllib.request
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.run.maintenance import Maintained
from kafkapy.pipeline.run.metrics import Measured, serving
from kafkapy.pipeline.run.progress import BatchReport, Progress
from tests.ports import free_ports

Sample = tuple[str, tuple[tuple[str, str], ...]]


def scraped(port: int) -> dict[Sample, float]:
    """Each sample by its name and its labels other than pipeline and topic."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    found = {}
    for sample in (sample for family in families for sample in family.samples):
        assert sample.name.startswith("kafkapy_pipeline_")
        assert (sample.labels.pop("pipeline"), sample.labels.pop("topic")) == ("shop-orders", "orders")
        found[sample.name.removeprefix("kafkapy_pipeline_"), tuple(sample.labels.items())] = sample.value
    return found


@pytest.fixture
def definition() -> PipelineDefinition:
    return PipelineDefinition.from_mapping(
        {"topic": "orders", "name": "shop-orders", "table": "delta:/lake/orders"}
    )


class Told(Progress):
    def __init__(self) -> None:
        self.all: list[Any] = []

    def note(self, line: str) -> None:
        self.all.append(line)

    def batch(self, report: BatchReport) -> None:
        self.all.append(report.batch)


def test_what_a_run_writes_is_counted_and_passed_on(definition: PipelineDefinition) -> None:
    (port,), told = free_ports(1), Told()
    with serving(str(port)) as metrics:
        with Measured(definition, metrics, told) as progress:
            assert scraped(port)["rows_total", ()] == 0
            progress.note("Starting Spark")
            reasons = {"is not valid JSON": 2, "other": 1}
            for batch in (7, 8):
                progress.batch(
                    BatchReport(
                        batch=batch,
                        rows=10,
                        dead_letters=3,
                        seconds=0.4,
                        read=17,
                        lag=5,
                        left_out=4,
                        reasons=reasons,
                        maintained=Maintained(("merged 16 small files",), 1.5),
                    )
                )
            progress.lag({0: 3, 1: 2})
            found = scraped(port)
            assert (found["up", ()], found["rows_total", ()], found["last_batch", ()]) == (1, 20, 8)
            assert found["dead_letters_total", (("reason", "is not valid JSON"),)] == 4
            assert found["dead_letters_total", (("reason", "other"),)] == 2
            assert found["left_out_total", ()] == 8
            assert found["batch_seconds_count", ()] == 2
            assert found["maintenance_seconds_total", ()] == 3
            assert found["batch_seconds_bucket", (("le", "0.25"),)] == 0
            assert found["batch_seconds_bucket", (("le", "0.5"),)] == 2
            assert (found["lag", (("partition", "0"),)], found["lag", (("partition", "1"),)]) == (3, 2)
            assert found["last_batch_timestamp_seconds", ()] > 1_700_000_000
        ended = scraped(port)
        assert ended["up", ()] == 0
        assert ended["rows_total", ()] == 20
        assert not any(name == "lag" for name, _ in ended)
    assert told.all == ["Starting Spark", 7, 8]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


@pytest.mark.parametrize("address", ["here", "127.0.0.1", "a:b", "70000", ""])
def test_an_address_that_makes_no_sense(address: str) -> None:
    with pytest.raises(PipelineError, match=r"--metrics: expected PORT or HOST:PORT"), serving(address):
        pass


def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = f"--metrics: cannot listen at {port}: Address already in use"
        with pytest.raises(PipelineError, match=told), serving(str(port)):
            pass
