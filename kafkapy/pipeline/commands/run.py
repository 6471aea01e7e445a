"""`kafkapy pipeline run PIPELINE`, with an exit status for schedulers."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import click

from kafkapy.errors import UserError
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import LimitError
from kafkapy.pipeline.pipelines_file import PipelinesFile

if TYPE_CHECKING:
    from kafkapy.pipeline.run.many import Outcome
    from kafkapy.pipeline.run.run import RunResult

FAILED, LIMIT = UserError.exit_status, LimitError.exit_status


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option("--once", is_flag=True, help="End when the table has all records that the topic has now.")
@click.option("--every", metavar="TIME", help="How often to write a batch, for example 30s.")
@click.option("--master", metavar="URL", help="Spark's master, for example spark://host:7077.")
@click.option(
    "--max-rows-per-batch",
    "rows",
    metavar="N",
    type=click.IntRange(min=1),
    help="The most records of one batch.",
)
@click.option("--metrics", metavar="[HOST:]PORT", help="Serve metrics for Prometheus there.")
@click.option("--quiet", is_flag=True, help="Show only errors.")
def run(
    pipeline: str,
    once: bool,
    every: str | None,
    master: str | None,
    rows: int | None,
    metrics: str | None,
    quiet: bool,
) -> int:
    """Write the topic of PIPELINE, a YAML file or a table, into its table.

    Of a file with many pipelines, all are run. A pipeline continues where it stopped; the first run
    begins at the definition's start. SIGINT and SIGTERM end it after the present batch; a second signal ends
    it at once. A killed run continues at the next start.

    Of many pipelines, one that fails does not stop the others. Exit status: 0 done, or a signal; 1 failure; 2
    wrong usage; 3 a limit of a definition (max_dead_letters, max_lag, max_batch_time) ended a pipeline.
    """
    from kafkapy.spark.cli import notes

    if once and every:
        raise click.UsageError("--once and --every exclude each other")
    given = {"master": master, "max_offsets_per_trigger": rows}
    with contextlib.nullcontext() if quiet else notes("kafkapy.spark"):
        file = PipelinesFile.load(pipeline, **{key: one for key, one in given.items() if one is not None})
        if file.only is not None:
            return _run_one(file.only, once=once, every=every, metrics=metrics, quiet=quiet)
        return _run_all(file, once=once, every=every, metrics=metrics, quiet=quiet)


def _run_one(
    definition: PipelineDefinition, *, once: bool, every: str | None, metrics: str | None, quiet: bool
) -> int:
    from kafkapy.pipeline.run.progress import Progress, Shown
    from kafkapy.pipeline.run.run import run as carry_out

    started = time.monotonic()
    progress = Progress() if quiet else Shown(definition.name)
    result = carry_out(definition, once=once, every=every, metrics=metrics, progress=progress)
    if not quiet:
        click.echo(_summary(definition, result, time.monotonic() - started))
    return 0


def _run_all(file: PipelinesFile, *, once: bool, every: str | None, metrics: str | None, quiet: bool) -> int:
    from kafkapy.pipeline.run.many import run_many

    started = time.monotonic()
    note = None if quiet else lambda line: print(line, file=sys.stderr, flush=True)
    outcomes = run_many(file, once=once, every=every, metrics=metrics, note=note)
    seconds = time.monotonic() - started
    if not quiet:
        for one in outcomes:
            if one.result is not None:
                click.echo(_summary(one.definition, one.result, seconds))
    return _status(outcomes)


def _status(outcomes: list[Outcome]) -> int:
    """The exit status; what failed is told again, after all that the others told."""
    failed = [one for one in outcomes if one.error is not None]
    for one in failed:
        click.echo(f"kafkapy: {one.error}", err=True)
    if not failed:
        return 0
    click.echo(f"kafkapy: {len(failed)} of {len(outcomes)} pipelines failed", err=True)
    return LIMIT if all(one.by_limit for one in failed) else FAILED


def _summary(definition: PipelineDefinition, result: RunResult, seconds: float) -> str:
    return (
        f"{definition.name}: {result.rows:,} rows in {result.batches:,} batches, "
        f"{result.dead_letters:,} dead letters, "
        + (f"{result.left_out:,} left out, " if result.left_out else "")
        + f"{seconds:.1f} s; {definition.table}"
        + (" (stopped)" if result.stopped else "")
    )
