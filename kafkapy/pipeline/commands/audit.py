"""`kafkapy pipeline audit PIPELINE`, with an exit status for schedulers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from kafkapy.errors import UserError
from kafkapy.pipeline.definition import PipelineDefinition

CLEAN, FOUND, IMPOSSIBLE = 0, 1, 2


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--report", metavar="FILE", type=click.Path(path_type=Path), help="Also write JSON to FILE.")
@click.option(
    "--examples",
    metavar="N",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Show at most N examples of each finding.",
)
@click.option("--deep", is_flag=True, help="Compare contents too, not only offsets and keys.")
@click.option("--master", metavar="URL", help="Where Spark runs; default: the pipeline's.")
def audit(
    pipeline: str, as_json: bool, report: Path | None, examples: int, deep: bool, master: str | None
) -> int:
    """Compare the table of PIPELINE, a YAML file or a table, with its topic, offset by offset.

    Reports which records are missing, duplicated, stale or foreign, up to the last committed batch. The
    pipeline may run meanwhile. Offsets that expired before they were read are reported first; they do not
    change the exit status. Exit status: 0 clean, 1 findings, 2 audit not possible.
    """
    from kafkapy.pipeline.audit.audit import audit as compare
    from kafkapy.spark.cli import notes

    try:
        definition = PipelineDefinition.load(pipeline)
        if master is not None:
            definition = dataclasses.replace(definition, master=master)
        with notes("kafkapy.spark", "kafkapy.pipeline"):
            found = compare(definition, examples=examples, deep=deep)
    except UserError as error:
        click.echo(f"kafkapy: {error}", err=True)
        return IMPOSSIBLE
    click.echo(found.to_json() if as_json else str(found))
    if report is not None:
        try:
            report.write_text(found.to_json() + "\n", encoding="utf-8")
        except OSError as error:
            click.echo(f"kafkapy: {report}: cannot be written: {error.strerror}", err=True)
            return IMPOSSIBLE
    return CLEAN if found.ok else FOUND
