"""`kafkapy pipeline run PIPELINE`"""

from __future__ import annotations

import contextlib
import dataclasses
import time

import click

from kafkapy.pipeline.definition import PipelineDefinition


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
@click.option("--quiet", is_flag=True, help="Show only errors.")
def run(
    pipeline: str, once: bool, every: str | None, master: str | None, rows: int | None, quiet: bool
) -> None:
    """Write the topic of PIPELINE, a YAML file or a table, into its table.

    It continues where it stopped; the first run begins at the definition's start. SIGINT and SIGTERM end it
    after the present batch; a second signal ends it at once. A killed run continues at the next start. Exit
    status: 0 done, 1 failure, 2 wrong usage, 3 more dead letters than the definition's max_dead_letters.
    """
    from kafkapy.pipeline.run.progress import Progress, Shown
    from kafkapy.pipeline.run.run import run as carry_out
    from kafkapy.spark.cli import notes

    if once and every:
        raise click.UsageError("--once and --every exclude each other")
    definition = PipelineDefinition.load(pipeline)
    if master is not None:
        definition = dataclasses.replace(definition, master=master)
    if rows is not None:
        definition = dataclasses.replace(definition, max_offsets_per_trigger=rows)
    started = time.monotonic()
    progress = Progress() if quiet else Shown(definition.name)
    with contextlib.nullcontext() if quiet else notes("kafkapy.spark"):
        result = carry_out(definition, once=once, every=every, progress=progress)
    if not quiet:
        click.echo(
            f"{definition.name}: {result.rows:,} rows in {result.batches:,} batches, "
            f"{result.dead_letters:,} dead letters, {time.monotonic() - started:.1f} s; {definition.table}"
            + (" (stopped)" if result.stopped else "")
        )
