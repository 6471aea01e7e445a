"""What Spark does with kafkapy and with Apache Kafka: both columns and their ratios.

scripts/bench pipeline                                   all loads, 2,000,000 rows of about 100 bytes
scripts/bench pipeline --rows 100000 --repeat 1 --load append --load upsert
scripts/bench pipeline --markdown out.md --json out.json

Both servers are up all the time and hold the same records; one Spark session serves both. Each load is run on
a tenth of the rows first, and then on the servers in turn, each time in the other order.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from interop.support.maven import CACHE
from kafkapy.spark import session
from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.options import add_json, add_loads, add_markdown, add_repeat, parser_of
from scripts.benchmarks.pipeline_loads import LOADS, Job, measure
from scripts.benchmarks.pipeline_topics import fill
from scripts.benchmarks.servers import new_server
from scripts.benchmarks.table import medians, publish

_SERVERS = ("kafkapy", "kafka")


def main(options: Sequence[str]) -> int:
    arguments = _arguments(options)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        results = _measure(arguments, Path(folder))
    conditions = (
        f"{arguments.rows:,} rows, Spark local[{arguments.cores}] with {arguments.memory}, "
        f"median of {arguments.repeat}"
    )
    titles = {name: load.title for name, load in LOADS.items()}
    publish(results, titles, _SERVERS, conditions, arguments, remark=_log_against_source(results))
    return 0


def _measure(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, list[Figures]]]:
    settings = {
        "spark.driver.memory": arguments.memory,
        "spark.jars.ivy": str(CACHE / "spark" / "ivy"),
        "spark.ui.enabled": "false",
    }
    results: dict[str, dict[str, list[Figures]]] = {}
    with contextlib.ExitStack() as stack:
        spark = session("delta", master=f"local[{arguments.cores}]", app_name="bench", conf=settings)
        stack.callback(spark.stop)
        large: dict[str, Job] = {}
        small: dict[str, Job] = {}
        for name in _SERVERS:
            server = stack.enter_context(new_server(name, folder / name))
            target = Target(server)
            for jobs, rows in ((small, max(arguments.rows // 10, 1)), (large, arguments.rows)):
                topic = fill(target, rows)
                jobs[name] = Job(spark, target, folder / name / "data", topic, rows, folder / "tables")
        for load_name in arguments.load or LOADS:
            load = LOADS[load_name]
            for name in _SERVERS:
                measure(load, small[name])
            for repetition in range(arguments.repeat):
                for name in _SERVERS if repetition % 2 == 0 else reversed(_SERVERS):
                    figures = measure(load, large[name])
                    results.setdefault(load_name, {}).setdefault(name, []).append(figures)
            for name in _SERVERS:
                told = medians(results[load_name][name])
                print(f"{load_name} on {name}: {told['rows/s']:,.0f} rows/s", file=sys.stderr)
    return results


def _log_against_source(results: dict[str, dict[str, list[Figures]]]) -> str:
    """The one ratio between two loads, as a sentence; nothing when one of them was not run."""
    if not {"log", "read"} <= results.keys():
        return ""
    log = medians(results["log"]["kafkapy"])["rows/s"]
    ratios = [log / medians(results["read"][name])["rows/s"] for name in _SERVERS]
    return (
        f"\n`kafkapy-log` reads {ratios[0]:.2f} times as fast as the Kafka source reads from kafkapy, "
        f"and {ratios[1]:.2f} times as fast as it reads from Apache Kafka.\n"
    )


def _arguments(options: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__, __doc__)
    add_loads(parser, LOADS)
    parser.add_argument(
        "--rows", type=int, default=2_000_000, help="records of the topic, 2,000,000 by default"
    )
    add_repeat(parser)
    parser.add_argument("--cores", type=int, default=2, help="Spark's tasks at a time, 2 by default")
    parser.add_argument("--memory", default="2g", help="the heap of Spark's JVM, 2g by default")
    add_json(parser)
    add_markdown(parser)
    return parser.parse_args(options)
