"""`kafkapy pipeline report PIPELINE --html FILE`"""

from __future__ import annotations

from pathlib import Path

import click

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option(
    "--html",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="The file to write; what is there is replaced.",
)
@click.option("--audit", "with_audit", is_flag=True, help="Audit the table too, which starts Spark.")
def report(pipeline: str, file: Path, with_audit: bool) -> None:
    """Write a page about PIPELINE, a YAML file or a table, that any browser shows.

    It has lag and speed over time, dead letters by reason and offsets by partition, and fetches nothing.
    Spark is needed only for --audit, and to find catalog.schema.table.
    """
    from kafkapy.pipeline.drawing import framed, page
    from kafkapy.pipeline.status import status_of
    from kafkapy.spark.cli import notes

    with notes("kafkapy.spark", "kafkapy.pipeline"):
        definition = PipelineDefinition.load(pipeline)
        pieces = status_of(definition, with_recent=True).drawn()
        if with_audit:
            from kafkapy.pipeline.audit.audit import audit

            pieces += audit(definition).drawn()
    try:
        file.write_text(page(f"Pipeline {definition.name}", [framed(pieces)]), encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"{file}: cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {file}")
