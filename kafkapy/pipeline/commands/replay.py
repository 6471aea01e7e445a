"""`kafkapy pipeline replay PIPELINE --to TOPIC`"""

from __future__ import annotations

import click

from kafkapy.pipeline.definition import PipelineDefinition


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option(
    "--to", metavar="TOPIC", required=True, help="Made if there is no such topic, with retention.ms=-1."
)
@click.option("--where", metavar="SQL", help="Which rows, for example \"_timestamp > '2026-01-31'\".")
@click.option(
    "--rate", metavar="N", type=click.FloatRange(0, min_open=True), help="At most N records a second."
)
@click.option("--bootstrap", metavar="HOST:PORT", help="Of the target; default: the pipeline's.")
@click.option("--force", is_flag=True, help="Even into the topic that the table is made from.")
def replay(
    pipeline: str, to: str, where: str | None, rate: float | None, bootstrap: str | None, force: bool
) -> None:
    """Write the rows of PIPELINE's table, a YAML file or a table, back into a topic.

    Each record has the key, timestamp and headers that it had, in the order that it had, and its source in
    the header kafkapy.source. A replay that is begun again repeats what it has written.
    """
    from kafkapy.pipeline.replay.replay import replay as write
    from kafkapy.process.progress_bar import ProgressBar
    from kafkapy.spark.cli import notes

    definition = PipelineDefinition.load(pipeline)
    with (
        notes("kafkapy.spark", "kafkapy.pipeline"),
        ProgressBar(f"{definition.topic} -> {to}") as bar,
    ):
        result = write(
            definition,
            to,
            where=where,
            rate=rate,
            force=force,
            bootstrap=bootstrap,
            progress=bar.reach,
        )
    click.echo(
        f"{result.records:,} records written into {to} in {result.seconds:.1f} s "
        f"({result.records_per_second:,.0f} records/s)"
    )
