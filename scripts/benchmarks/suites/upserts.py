"""What small upserts into large tables cost, batch by batch, in one run of a pipeline.

scripts/bench upserts                          Delta and Iceberg, merge-on-read, 10^5 and 2 * 10^6 rows
scripts/bench upserts --rows 10000000 --batches 50
scripts/bench upserts --table delta --key id --recent --clustered --jobs

A table of so many rows is written at once, in files of half a million rows. Then a run that continues gets
batches of 100 records, each with another key: from all over the table, or, with --recent, of the last
thousand rows. For each batch: how long the pipeline wrote it; the time and the CPU time of this process and
the JVM, from the production of its records until the batch was told, with maintenance; how long maintenance
took; and the bytes of all files that appeared or changed below the table's folder. Each table has a session
of Spark of its own, local[2] with 2g.
"""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing import get_context
from typing import Final

from scripts.benchmarks.comparison import parser_of
from scripts.benchmarks.load import Figures
from scripts.benchmarks.small_upserts import Case, measure
from scripts.benchmarks.table import aligned, medians

_SHOWN: Final = (1, 2, 10, 20, 50)
_YOUNG: Final = 10
"""After so many batches most of the JVM's code is compiled: the median is of later ones."""


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--table", action="append", choices=["delta", "iceberg"], help="default: both")
    parser.add_argument("--rows", action="append", type=int, help="default: 100000 and 2000000")
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--merge-mode", default="merge-on-read", choices=["merge-on-read", "copy-on-write"])
    parser.add_argument("--key", help="a column, id or account; default: the record's key")
    parser.add_argument("--recent", action="store_true", help="keys of the last thousand rows")
    parser.add_argument("--clustered", action="store_true", help="each file has a range of keys")
    parser.add_argument("--tombstones", type=int, default=0, help="so many of the 100 records delete")
    parser.add_argument("--conf", action="append", default=[], help="NAME=VALUE, a setting of the session")
    parser.add_argument("--jobs", action="store_true", help="print the jobs of Spark in each batch")
    arguments = parser.parse_args(options)
    for table in arguments.table or ["delta", "iceberg"]:
        for rows in arguments.rows or [100_000, 2_000_000]:
            case = Case(
                table=table,
                rows=rows,
                batches=arguments.batches,
                merge_mode=arguments.merge_mode,
                key=arguments.key,
                recent=arguments.recent,
                clustered=arguments.clustered,
                tombstones=arguments.tombstones,
                conf=dict(one.split("=", 1) for one in arguments.conf),
                jobs=arguments.jobs,
            )
            # Each has a process and a JVM of its own: what one has compiled would help the next.
            with get_context("spawn").Pool(1) as alone:
                print(_told(f"{table}, {rows:,} rows", alone.apply(measure, (case,))), flush=True)
    return 0


def _told(title: str, found: Sequence[Figures]) -> str:
    lines = [_line(f"batch {number}", found[number - 1]) for number in _SHOWN if number <= len(found)]
    if later := found[_YOUNG:]:
        lines.append(_line(f"median of {_YOUNG + 1} to {len(found)}", medians(later)))
    return aligned([title, *found[0]], lines) + "\n"


def _line(name: str, figures: Figures) -> list[str]:
    return [name, *(f"{figure:.3g}" for figure in figures.values())]
