"""Loads on one server, which is started for each of them alone."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts.benchmarks.comparison import Measure
from scripts.benchmarks.load import ColdLoad, Figures, Load, Size, Target
from scripts.benchmarks.servers import new_server


def on_one_server(
    loads: Mapping[str, Load[Target] | ColdLoad], properties: Mapping[str, str] | None = None
) -> Measure:
    """What measures one of the loads on one server.

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
