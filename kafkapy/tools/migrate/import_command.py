"""`kafkapy import DIR TARGET [--zookeeper HOST:PORT] [--metadata DIR]`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkapy.protocol.topic_names import is_internal
from kafkapy.terminal.progress_bar import ProgressBar
from kafkapy.tools.migrate.command_line import (
    access_to,
    cost,
    counted,
    named_directories,
    size,
    targets_for,
    zookeeper_config,
)

if TYPE_CHECKING:
    from kafkapy.tools.migrate.import_plan import ImportPlan
    from kafkapy.tools.migrate.importing import Imported


@click.command("import")
@click.argument("directory", metavar="DIR")
@click.argument("target", metavar="[TARGET]", required=False)
@click.option("--in-place", is_flag=True, help="Change DIR itself instead of copying it.")
@click.option("--zookeeper", metavar="HOST:PORT[/PATH]", help="Take the settings from Kafka's ZooKeeper.")
@zookeeper_config
@click.option(
    "--metadata",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Take the settings from Kafka's metadata.log.dir.",
)
def import_(
    directory: str,
    target: str | None,
    in_place: bool,
    zookeeper: str | None,
    zookeeper_config: Path | None,
    metadata: Path | None,
) -> None:
    """Convert the data directory DIR of Apache Kafka into one for kafkapy.

    Stop the broker first. Topics, records and committed offsets come from the directory. Settings come from
    its KRaft metadata, or from the ZooKeeper that is named. If there are several log directories, name all of
    them, separated by commas as in log.dirs, and as many targets.
    """
    from kafkapy.tools.migrate.importing import MetadataPlace, import_copy, import_in_place

    sources = named_directories(directory)
    targets = targets_for(sources, target, in_place)
    place = MetadataPlace(zookeeper, metadata, access_to(zookeeper, zookeeper_config))
    if targets is None:
        imported = import_in_place(sources, place)
    else:
        with ProgressBar("Copying partitions") as bar:
            imported = import_copy(sources, targets, place, bar.reach)
    _report(imported, sources if targets is None else targets, copied=targets is not None)


def _report(imported: Imported, paths: list[Path], *, copied: bool) -> None:
    plan = imported.plan
    where = ",".join(str(path.absolute()) for path in paths)
    topics = plan.cluster.image.topics
    partitions = sum(len(topic.partitions) for topic in topics.values())
    amount = f"{counted(len(topics), 'topic')} with {counted(partitions, 'partition')}"
    click.echo(
        f"Imported {amount} ({size(imported.transfer.nbytes)}) to {where}"
        if copied
        else f"Imported {amount}, in place: {where}"
    )
    if copied:
        click.echo(cost(imported.transfer))
    if not imported.source.clean:
        click.echo("The broker was not stopped cleanly: kafkapy will recover the logs when it starts.")
    click.echo(_settings(plan))
    _report_internal(plan)
    if imported.put_aside is not None:
        click.echo(f"Kafka's own metadata is kept in {imported.put_aside}")
    for remark in plan.remarks:
        click.echo(f"Note: {remark}")
    if plan.not_carried:
        click.echo("Not imported:")
        for line in plan.not_carried:
            click.echo(f"  {line}")
    data = str(paths[0]) if len(paths) == 1 else where
    click.echo(f"Start it with: kafkapy serve --data {data}")


def _settings(plan: ImportPlan) -> str:
    image = plan.cluster.image
    if plan.described_by is None:
        kept = [topic.name for topic in image.topics.values() if topic.configs.get("retention.ms") == "-1"]
        compacted = [
            topic.name
            for topic in image.topics.values()
            if topic.configs.get("cleanup.policy") == "compact" and not is_internal(topic.name)
        ]
        return (
            "No settings were found. Topics that get retention.ms=-1, so that nothing is deleted: "
            f"{len(kept)}. Topics that get cleanup.policy=compact, because Kafka compacted them: "
            f"{len(compacted)}. Change their settings, or import again with --zookeeper or --metadata."
        )
    settings = sum(len(topic.configs) for topic in image.topics.values())
    brokers = sum(map(len, image.broker_configs.values()))
    return (
        f"Settings from {plan.described_by}: {settings} of topics, {brokers} of brokers. Settings in a "
        "server.properties are not imported: kafkapy serve --config reads the file"
    )


def _report_internal(plan: ImportPlan) -> None:
    internal = plan.internal
    groups = internal.groups_with_offsets | internal.classic_groups
    groups = groups | internal.consumer_groups | internal.streams_groups
    if groups:
        click.echo(
            f"Groups: {len(groups)}, {len(internal.groups_with_offsets)} of them with committed offsets"
        )
    if internal.other_groups:
        click.echo(f"  {len(internal.other_groups)} share groups: kept in the log, without effect")
    if internal.transactional_ids:
        click.echo(f"Transactional ids: {internal.transactional_ids}")
    for transaction in internal.open_transactions:
        click.echo(f"  not ended: {transaction}: kafkapy ends it, or aborts it after its timeout")
