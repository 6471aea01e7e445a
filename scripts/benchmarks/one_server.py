"""Loads on one server, which is started for each of them alone."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.benchmarks.comparison import Measure, compare, comparison_arguments
from scripts.benchmarks.load import ColdLoad, Figures, Load, Size, Target
from scripts.benchmarks.servers import DESCRIPTIONS, new_server

Loads = Mapping[str, Load[Target] | ColdLoad]


def compare_one_server(
    module: str,
    doc: str | None,
    options: Sequence[str],
    loads: Loads,
    properties: Mapping[str, str] | None = None,
) -> int:
    """Run the suite of this module: its loads on kafkapy and on Apache Kafka; the exit status."""
    arguments = comparison_arguments(module, doc, options, loads, DESCRIPTIONS)
    return compare(
        arguments,
        _on_one_server(loads, properties),
        arguments.load or list(loads),
        arguments.server or ["kafkapy", "kafka"],
        loads,
        DESCRIPTIONS,
    )


def _on_one_server(loads: Loads, properties: Mapping[str, str] | None) -> Measure:
    """Measures one of the loads on one server.

    The server has the settings of its column, and `properties` besides.
    """

    def measure(name: str, server: str, size: Size) -> list[Figures]:
        load = loads[name]
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            if not isinstance(load, Load):
                return [load.run(server, Path(folder, str(n))) for n in range(size.repetitions)]
            with new_server(server, Path(folder), properties) as process:
                target = Target(process)
                load.warm(target, size)
                return [load.run(target, size.scale) for _ in range(size.repetitions)]

    return measure
