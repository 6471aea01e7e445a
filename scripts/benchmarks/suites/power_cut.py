"""What a power cut costs Apache Kafka and kafkapy, each with its defaults.

scripts/bench power-cut [--records 20000] [--results DIR]

It needs root, prints a table, and writes the figures to docs/results/power-cut-DATE.json.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from interop.power_cut.runs import BROKERS, Run, cut_after_acknowledgement, cut_at_first_start
from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.table import aligned
from scripts.results import RESULTS, write_results
from tests.crash.loop_disk import why_not


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args(options)
    reason = why_not()
    if reason:
        raise RuntimeError(reason)
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for kind in BROKERS:
            runs.append(
                cut_after_acknowledgement(kind, Path(folder, f"{kind.__name__}-acked"), chosen.records)
            )
            runs.append(cut_at_first_start(kind, Path(folder, f"{kind.__name__}-first")))
    rows = [
        [
            run.broker,
            run.what,
            f"{run.acknowledged}",
            f"{run.lost}",
            "yes" if run.starts_again else f"no: {run.note}",
        ]
        for run in runs
    ]
    print(aligned(["broker", "power cut", "acknowledged", "lost", "starts again"], rows))
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    report = {"date": date, "records": chosen.records, "runs": [run._asdict() for run in runs]}
    write_results(chosen.results / f"power-cut-{date}.json", report)
    return 0
