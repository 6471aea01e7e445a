"""kafkapy and Apache Kafka under the same loads, in turn: both columns and their ratios.

scripts/bench broker                                   all loads, kafkapy (durability=os) and Apache Kafka
scripts/bench broker --load stream-1k --load sync --scale 0.3                          some loads, smaller
scripts/bench broker --server kafkapy-fsync --server kafka --markdown out.md --json out.json
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.benchmarks.comparison import compare, comparison_arguments
from scripts.benchmarks.load import Figures, Load, Target
from scripts.benchmarks.loads import LOADS
from scripts.benchmarks.servers import DESCRIPTIONS, new_server


def main(options: Sequence[str]) -> int:
    arguments = comparison_arguments(__name__, __doc__, options, LOADS, DESCRIPTIONS)
    servers = arguments.server or ["kafkapy", "kafka"]
    return compare(arguments, _measure, arguments.load or list(LOADS), servers, LOADS, DESCRIPTIONS)


def _measure(name: str, server: str, scale: float, repetitions: int) -> list[Figures]:
    """One load on one server, started for it alone."""
    load = LOADS[name]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if not isinstance(load, Load):
            return [load.run(server, Path(folder, str(n))) for n in range(repetitions)]
        with new_server(server, Path(folder)) as process:
            target = Target(process)
            load.run(target, scale * load.warm_up)
            return [load.run(target, scale) for _ in range(repetitions)]
