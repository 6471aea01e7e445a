"""`kafkapy check DIR…`: is a data directory sound?

Exit status: 0 it is sound, or has only harmless findings; 1 something is damaged, or will be repaired at the
next start; 2 something could not be checked, or the usage is wrong; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from kafkapy.errors import UserError
from kafkapy.process.os_failure import end_with
from kafkapy.process.progress_bar import ProgressBar, Unit

if TYPE_CHECKING:
    from kafkapy.tools.check.check import Summary


@click.command()
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@click.option("--deep", is_flag=True, help="Decompress every batch and check every record.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def check(paths: tuple[str, ...], deep: bool, as_json: bool) -> None:
    """Find damage in DIR..., without a broker and without changing anything.

    DIR is a data directory of kafkapy or Apache Kafka, a folder with several, or one partition's directory.
    Each finding is harmless, repaired by the next start, or damaged; a damaged one says what to do.
    """
    from kafkapy.tools.check.check import Check

    try:
        job = Check(paths, deep=deep)
    except UserError as error:
        click.echo(f"kafkapy: {error}", err=True)
        sys.exit(2)
    try:
        with ProgressBar("", unit=Unit.BYTES) as bar:
            if bar.shown:
                bar.expect(job.total_bytes())
            for finding in job.run(bar.advance):
                bar.echo(json.dumps(finding.values(), ensure_ascii=False) if as_json else finding.text())
        if as_json:
            click.echo(json.dumps(job.summary.values()))
        else:
            _tell(job.summary)
    except OSError as error:  # from the output: what cannot be read is a line of the summary
        end_with(error, code=2)
    sys.exit(job.summary.exit_status)


def _tell(summary: Summary) -> None:
    for line in summary.unreadable:
        click.echo(f"kafkapy: {line}", err=True)
    for path in summary.live:
        click.echo(f"A broker is running on {path}: what it is writing is left out.")
    counts = [f"{count} {severity.value}" for severity, count in summary.findings.items() if count]
    read = [_count(summary.partitions, "partition"), _count(summary.segments, "segment")]
    read.append(_count(summary.batches, "batch", "batches"))
    speed = f"{summary.nbytes / 1e6:,.1f} MB in {summary.seconds:.1f} s ({summary.mb_per_second:,.0f} MB/s)"
    click.echo(f"{', '.join(read)}, {speed}: {', '.join(counts) or 'nothing is wrong'}")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
