"""`kafkapy pipeline lineage PIPELINE --source … | --key …`"""

from __future__ import annotations

import dataclasses
import json

import click

from kafkapy.pipeline.definition import PipelineDefinition

EXPLAINED, MISSING = 0, 1


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option("--source", metavar="TOPIC-PARTITION-OFFSET", help="The record at this place.")
@click.option("--key", metavar="KEY", help="The record key of an upsert table's row; id=7 for key columns.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--master", metavar="URL", help="Where Spark runs; default: the pipeline's.")
def lineage(pipeline: str, source: str | None, key: str | None, as_json: bool, master: str | None) -> int:
    """Say where a row of PIPELINE came from, or why a record is no row.

    PIPELINE is a YAML file or a table. Names the batch with its offsets, the version of the table, and the
    file. Exit status: 1 if the table lacks the record without a reason, otherwise 0.
    """
    from kafkapy.pipeline.lineage.lineage import lineage as search
    from kafkapy.spark.cli import notes

    with notes("kafkapy.spark", "kafkapy.pipeline"):
        definition = PipelineDefinition.load(pipeline)
        if master is not None:
            definition = dataclasses.replace(definition, master=master)
        found = search(definition, source=source, key=key)
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else str(found))
    return MISSING if found.missing else EXPLAINED
