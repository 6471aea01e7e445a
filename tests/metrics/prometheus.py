"""Reads a broker's metrics as Prometheus does, with the parser of the client library."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

import kafkapy
from tests.ports import free_ports

Labels = frozenset[tuple[str, str]]


class Samples:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.values: dict[tuple[str, Labels], float] = {}
        declared = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                # The parser adds _total to counters that have another name, which Prometheus does not.
                plain = sample.name.removesuffix("_total")
                name = plain if plain in declared and sample.name not in declared else sample.name
                key = name, frozenset(sample.labels.items())
                assert key not in self.values, f"{key} is there twice"
                self.values[key] = sample.value

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.values}

    def get(self, name: str, **labels: str) -> float | None:
        """The value of the sample with exactly these labels."""
        return self.values.get((name, frozenset(labels.items())))

    def having(self, name: str, **labels: str) -> dict[Labels, float]:
        """The samples that have these labels, and perhaps others."""
        wanted = frozenset(labels.items())
        return {
            each: value for (found, each), value in self.values.items() if found == name and wanted <= each
        }


class Served(NamedTuple):
    """A broker with metrics."""

    broker: kafkapy.Broker
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def page(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    def scrape(self) -> Samples:
        return Samples(self.page())


@contextmanager
def serving(config: Mapping[str, object] | None = None, data_dir: Path | None = None) -> Iterator[Served]:
    """A broker with metrics, while it runs."""
    (port,) = free_ports(1)
    with kafkapy.Broker(config={"metrics.port": port, **(config or {})}, data_dir=data_dir) as broker:
        yield Served(broker, port)
