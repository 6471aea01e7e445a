"""`kafkapy pipeline reset PIPELINE --to …`"""

from __future__ import annotations

import click

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError


@click.command()
@click.argument("pipeline", metavar="PIPELINE")
@click.option(
    "--to",
    metavar="earliest|latest|available|TIME|OFFSETS",
    required=True,
    help="available: the present position, or the topic's start where that has expired. "
    "OFFSETS: '{\"0\": 12}'; other partitions keep their positions.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
def reset(pipeline: str, to: str, dry_run: bool, yes: bool) -> None:
    """Let PIPELINE, a YAML file or a table, continue at other offsets.

    Rows at or after these offsets are deleted from an append table, so that no record is duplicated.
    """
    from kafkapy.pipeline.reset import plan_reset
    from kafkapy.pipeline.reset import reset as carry_out
    from kafkapy.pipeline.state import State
    from kafkapy.spark.cli import notes

    with notes("kafkapy.spark"):
        definition = PipelineDefinition.load(pipeline)
    if (process := State.of(definition).running) is not None:
        raise PipelineError(f"{definition.name} is running (process {process}); stop it first")
    plan = plan_reset(definition, to)
    for line in plan.lines():
        click.echo(line)
    if dry_run:
        return
    if not yes:
        try:
            agreed = click.confirm("Reset?")
        except click.Abort:
            agreed = False
        if not agreed:
            raise PipelineError("nothing was changed; --yes does it without asking")
    with notes("kafkapy.spark", "kafkapy.pipeline"):
        carry_out(plan)
    click.echo(f"To continue at these offsets: kafkapy pipeline run {pipeline}")
