"""`kafkapy pipeline audit PIPELINE`, with an exit status for schedulers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkapy.errors import UserError
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError

if TYPE_CHECKING:
    from kafkapy.pipeline.audit.repair import RepairPlan

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
@click.option(
    "--from",
    "starting",
    metavar="earliest|TIME|OFFSETS",
    help="Compare only offsets from here on. OFFSETS: '{\"0\": 12}'; other partitions whole.",
)
@click.option(
    "--to", "ending", metavar="latest|TIME|OFFSETS", help="Compare only offsets before these; not of upserts."
)
@click.option(
    "--incremental",
    is_flag=True,
    help="Compare only what came after the last such audit that was clean.",
)
@click.option("--deep", is_flag=True, help="Compare contents too, not only offsets and keys.")
@click.option("--repair", is_flag=True, help="First delete rows that are doubled, foreign or should be gone.")
@click.option("--dry-run", is_flag=True, help="With --repair: only show what it would do.")
@click.option("--yes", is_flag=True, help="With --repair: do it without asking.")
@click.option("--master", metavar="URL", help="Where Spark runs; default: the pipeline's.")
def audit(
    pipeline: str,
    as_json: bool,
    report: Path | None,
    examples: int,
    starting: str | None,
    ending: str | None,
    incremental: bool,
    deep: bool,
    repair: bool,
    dry_run: bool,
    yes: bool,
    master: str | None,
) -> int:
    """Compare the table of PIPELINE, a YAML file or a table, with its topic, offset by offset.

    Reports which records are missing, duplicated, stale or foreign, up to the last committed batch. The
    pipeline may run meanwhile. Offsets that expired before they were read are reported first; they do not
    change the exit status. Exit status: 0 clean, 1 findings, 2 audit not possible.

    --repair mends a Delta or Iceberg table in one commit, while the pipeline does not run. Records that the
    table lacks, or has in an older state, are not repaired: `kafkapy pipeline reset` reads them again.

    --incremental notes in the table's _kafkapy how far it came, and the report says what it did not look at.
    """
    from kafkapy.pipeline.audit.audit import audit as compare
    from kafkapy.spark.cli import notes

    try:
        if (dry_run or yes) and not repair:
            raise PipelineError("--dry-run and --yes are of --repair; add it")
        if repair and (starting or ending or incremental):
            raise PipelineError("--repair looks at the whole table; leave out --from, --to and --incremental")
        with notes("kafkapy.spark", "kafkapy.pipeline"):
            definition = PipelineDefinition.load(pipeline)
            if master is not None:
                definition = dataclasses.replace(definition, master=master)
            if repair:
                from kafkapy.pipeline.audit.repair import repair as carry_out

                carry_out(definition, agree=lambda plan: _agreed(plan, dry_run=dry_run, yes=yes))
            found = compare(
                definition,
                examples=examples,
                deep=deep,
                starting=starting,
                ending=ending,
                incremental=incremental,
            )
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


def _agreed(plan: RepairPlan, *, dry_run: bool, yes: bool) -> bool:
    """Shows the plan on standard error: standard output may be JSON."""
    for line in plan.lines():
        click.echo(line, err=True)
    if dry_run or not plan.counts:
        return False
    try:
        if yes or click.confirm("Repair?", err=True):
            return True
    except click.Abort:
        pass
    raise PipelineError("nothing was changed; --yes does it without asking")
