"""What many topics in one Spark cost: one run of a file with a pattern, into Delta tables.

scripts/bench many-topics                      50 topics of 4 partitions, 2,000 records each, local[2]
scripts/bench many-topics --topics 10 --every 10s

The first records are there before the run begins; the others come in rounds while it works. Then no records
come for a while, then a trickle; a topic is created that the pattern matches; one topic is deleted and one
gets a record that is no row. CPU time is that of the command with its JVM. The delays of the trickle are from
the timestamp of a record to the commit of its row. At the end deltalake must find each record once.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.many_topics import Case, measure


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--records", type=int, default=2_000, help="of each topic")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between rounds")
    parser.add_argument("--seconds", type=float, default=30.0, help="of no records, and of the trickle")
    parser.add_argument("--between", type=int, default=10, help="seconds between a topic's records")
    parser.add_argument("--every", help="the definition's every; default: its default")
    parser.add_argument("--memory", default="2g", help="spark.driver.memory")
    parser.add_argument("--cores", type=int, default=2)
    for phase, figures in measure(Case(**vars(parser.parse_args(options)))):
        told = ", ".join(f"{value:.3g} {name}" for name, value in figures.items())
        print(f"{phase}: {told}", flush=True)
    return 0
