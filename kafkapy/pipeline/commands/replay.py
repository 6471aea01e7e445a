"""`kafkapy pipeline replay PIPELINE --to TOPIC`"""

from __future__ import annotations

import click

from kafkapy.pipeline.definition import PipelineDefinition


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option(
    "--to", metavar="TOPIC", required=True, help="Target; created with retention.ms=-1 if it is missing."
)
@click.option("--where", metavar="SQL", help="Which rows, for example \"_timestamp > '2026-01-31'\".")
@click.option(
    "--rate", metavar="N", type=click.FloatRange(0, min_open=True), help="At most N records a second."
)
@click.option("--bootstrap", metavar="HOST:PORT", help="Broker of the target; default: the pipeline's.")
@click.option("--force", is_flag=True, help="Allow the table's own topic as the target.")
def replay(
    pipeline: str, to: str, where: str | None, rate: float | None, bootstrap: str | None, force: bool
) -> None:
    """Write the rows of PIPELINE's table, a YAML file or a table, back into a topic.

    Each record keeps its key, timestamp, headers and order. The header kafkapy.source names its source. A
    replay that is started again writes its records again.
    """
    from kafkapy.pipeline.replay.replay import replay as write
    from kafkapy.spark.cli import notes
    from kafkapy.terminal.progress_bar import ProgressBar

    with notes("kafkapy.spark", "kafkapy.pipeline"):
        definition = PipelineDefinition.load(pipeline)
        with ProgressBar(f"{definition.topic} -> {to}") as bar:
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
