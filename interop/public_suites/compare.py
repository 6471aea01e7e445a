"""Run suites with kafkapy and with Apache Kafka in turn, and print the seconds.

python -m interop.public_suites.compare [SUITE …]

A suite that is told an address has an Apache Kafka that runs before its seconds begin, as `kafkapy run` gives
it a broker; the start is in a column of its own. One that starts containers has it as a process in place of
each.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Final

from interop.public_suites.kafka_server import START_SECONDS, kafka
from interop.public_suites.suites import (
    ARROYO,
    FASTSTREAM,
    KASKADE,
    KTABLES,
    PYSPARK,
    QUIX,
    TASKIQ_AIO_KAFKA,
    Suite,
    run,
)

_SUITES: Final = {
    each.name: each for each in (ARROYO, FASTSTREAM, KASKADE, KTABLES, PYSPARK, QUIX, TASKIQ_AIO_KAFKA)
}


def _row(suite: Suite) -> str:
    cells = [suite.name]
    for with_kafka in (False, True):
        begun = time.monotonic()
        started = 0.0
        if with_kafka and suite.run is not None:
            set_to = dict(value.split("=", 1) for option, value in pairwise(suite.run) if option == "--set")
            with tempfile.TemporaryDirectory() as folder:
                server = kafka(Path(folder) / "kafka", set_to)
                with server.killed_at_end():
                    server.start(START_SECONDS)
                    started = time.monotonic() - begun
                    outcome = run(suite, servers=server.bootstrap_servers)
                    ended = time.monotonic()
        else:
            outcome = run(suite, *(("-p", "interop.public_suites.apache_kafka") if with_kafka else ()))
            ended = time.monotonic()
        for each in outcome.others:
            print(f"{suite.name}, {'Apache Kafka' if with_kafka else 'kafkapy'}: {each}", file=sys.stderr)
        cells += [str(outcome.passed), f"{ended - begun - started:.0f}"]
    cells.append(f"{started:.0f}" if started else "in the suite")
    return f"| {' | '.join(cells)} |"


def main(names: list[str]) -> None:
    os.environ["KAFKAPY_PYTHON"] = sys.executable
    print("| suite | passed, kafkapy | s | passed, Apache Kafka | s | its start, s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in names or _SUITES:
        print(_row(_SUITES[name]), flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
