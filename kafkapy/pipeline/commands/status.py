"""`kafkapy pipeline status PIPELINE`"""

from __future__ import annotations

import sys

import click

from kafkapy.pipeline.definition import PipelineDefinition


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(pipeline: str, as_json: bool) -> None:
    """Show lag, speed and dead letters of PIPELINE, a YAML file or a table.

    Lag counts the offsets between the last committed batch and the end that a read_committed reader sees.
    """
    from kafkapy.pipeline.status import status_of

    found = status_of(PipelineDefinition.load(pipeline))
    if as_json:
        click.echo(found.to_json())
        return
    from rich.console import Console

    # A pipe has no width: rich would assume 80 and break lines.
    wide = None if sys.stdout.isatty() else 500
    Console(highlight=False, soft_wrap=True, width=wide).print(found.to_text())
