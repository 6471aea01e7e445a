"""`kafkapy check DIR…`: finds what is wrong in a data directory.

Exit status: 0 nothing is wrong, or all findings are harmless; 1 something is damaged, or will be repaired at
the next start; 2 something could not be checked, or the usage is wrong; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kafkapy.errors import UserError
from kafkapy.terminal.os_failure import end_with
from kafkapy.terminal.progress_bar import ProgressBar, Unit

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
        with _unlogged("kafkapy.storage"), ProgressBar("", unit=Unit.BYTES) as bar:
            if bar.shown:
                bar.expect(job.total_bytes())
            for finding in job.run(bar.advance):
                bar.echo(json.dumps(finding.values(), ensure_ascii=False) if as_json else finding.text())
        if as_json:
            click.echo(json.dumps(job.summary.values()))
        else:
            _print_summary(job.summary)
    except OSError as error:  # from writing the output; errors of reading are in the summary
        end_with(error, code=2)
    sys.exit(job.summary.exit_status)


@contextlib.contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Suppress a package's log messages.

    The trial of the next start logs repairs that it does not make.
    """
    logger, handler = logging.getLogger(name), logging.NullHandler()
    logger.addHandler(handler)
    logger.propagate, before = False, logger.propagate
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)


def _print_summary(summary: Summary) -> None:
    for line in summary.unreadable:
        click.echo(f"kafkapy: {line}", err=True)
    for path in summary.live:
        click.echo(f"A broker is running on {path}: what it is writing is left out.")
    counts = [f"{count} {severity.value}" for severity, count in summary.findings.items() if count]
    read = [_count(summary.partitions, "partition"), _count(summary.segments, "segment")]
    read.append(_count(summary.batches, "batch", "batches"))
    megabytes = summary.nbytes / 1e6
    speed = f"{megabytes:,.1f} MB in {summary.seconds:.1f} s ({megabytes / summary.seconds:,.0f} MB/s)"
    click.echo(f"{', '.join(read)}, {speed}: {', '.join(counts) or 'nothing is wrong'}")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
