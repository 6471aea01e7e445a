"""`kafkapy pipeline maintain PIPELINE [--retain 7d]`"""

from __future__ import annotations

from datetime import timedelta

import click

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.fields import seconds
from kafkapy.pipeline.pipeline_error import PipelineError


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option(
    "--retain",
    metavar="TIME",
    help="How long versions of the table stay readable, for example 12h; default: the definition's, or 7d.",
)
def maintain(pipeline: str, retain: str | None) -> None:
    """Merge the small files of PIPELINE's table and delete obsolete files.

    PIPELINE is a YAML file or a table.

    Delta: OPTIMIZE and VACUUM. Iceberg: rewrite_data_files, expire_snapshots and remove_orphan_files.
    Parquet: deletes only files that killed runs left. The pipeline must not run meanwhile; it merges small
    files itself, and deletes those of old versions.
    """
    from kafkapy.pipeline.maintain import maintain as carry_out
    from kafkapy.spark.cli import notes

    try:
        retained = None if retain is None else timedelta(seconds=seconds(retain))
    except PipelineError as error:
        raise PipelineError(f"--retain: {error}") from None
    with notes("kafkapy.spark", "kafkapy.pipeline"):
        done = carry_out(PipelineDefinition.load(pipeline), retain=retained)
    for line in done:
        click.echo(line)
