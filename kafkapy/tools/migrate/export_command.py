"""`kafkapy export DIR TARGET --to kraft | zookeeper:HOST:PORT`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

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
    from pathlib import Path

    from kafkapy.tools.migrate.exporting import Exported


@click.command("export")
@click.argument("directory", metavar="DIR")
@click.argument("target", metavar="[TARGET]", required=False)
@click.option(
    "--to", "kind", metavar="kraft|zookeeper:HOST:PORT[/PATH]", required=True, help="The mode of the Kafka."
)
@zookeeper_config
@click.option("--in-place", is_flag=True, help="Change DIR itself instead of copying it.")
def export(
    directory: str, target: str | None, kind: str, zookeeper_config: Path | None, in_place: bool
) -> None:
    """Convert the data directory DIR of kafkapy into one for Apache Kafka.

    Stop the broker first. kraft is for Kafka 3.9 and every later release. zookeeper is for Kafka 3.9 in
    ZooKeeper mode; topics and settings are also written to that ZooKeeper. If there are several log
    directories, name all of them, separated by commas as in log.dirs, and as many targets.
    """
    from kafkapy.tools.migrate.exporting import export_copy, export_in_place

    sources = named_directories(directory)
    targets = targets_for(sources, target, in_place)
    zookeeper = _zookeeper(kind)
    access = access_to(zookeeper, zookeeper_config)
    if targets is None:
        exported = export_in_place(sources, zookeeper, access=access)
    else:
        with ProgressBar("Copying partitions") as bar:
            exported = export_copy(sources, targets, zookeeper, bar.reach, access=access)
    _report(exported, sources if targets is None else targets, zookeeper, copied=targets is not None)


def _zookeeper(kind: str) -> str | None:
    """Return the address of the ZooKeeper; None for KRaft."""
    name, _, address = kind.partition(":")
    if kind != "kraft" and (name != "zookeeper" or not address):
        raise click.UsageError(f"--to {kind}: give kraft or zookeeper:HOST:PORT.")
    return address or None


def _report(exported: Exported, paths: list[Path], zookeeper: str | None, *, copied: bool) -> None:
    plan = exported.plan
    where = ",".join(str(path.absolute()) for path in paths)
    topics = counted(len(plan.cluster.image.topics), "topic")
    amount = f"{topics} with {counted(len(plan.topic_ids), 'partition')}"
    if copied:
        click.echo(f"Exported {amount} ({size(exported.transfer.nbytes)}) to {where}")
        click.echo(cost(exported.transfer))
    else:
        click.echo(f"Exported {amount}, in place: {where}")
    if not exported.clean:
        click.echo("The broker was not stopped cleanly: Apache Kafka will recover the logs when it starts.")
    if plan.damaged:
        click.echo(
            f"Damaged, as in the original: {', '.join(plan.damaged)}. Apache Kafka does not know about the "
            "damage: consumers fail there, and if Kafka recovers these segments, it truncates the log there."
        )
    if plan.left:
        click.echo(f"Not exported, because no topic has these partitions: {', '.join(plan.left)}")
    if plan.not_carried:
        click.echo(f"Not exported, because Apache Kafka 3.9 does not have it: {', '.join(plan.not_carried)}")
    node_id = plan.cluster.node_id
    if zookeeper is not None:
        click.echo(f"Wrote {counted(exported.nodes, 'node')} to ZooKeeper at {zookeeper}")
        click.echo("Start Apache Kafka 3.9 with these settings in its config/server.properties:")
        click.echo(f"  broker.id={node_id}\n  zookeeper.connect={zookeeper}\n  log.dirs={where}")
        return
    click.echo("Start Apache Kafka 3.9 or later with these settings in its config/server.properties:")
    click.echo(
        f"  process.roles=broker,controller\n  node.id={node_id}\n"
        "  controller.quorum.bootstrap.servers=localhost:9093\n"
        "  controller.listener.names=CONTROLLER\n"
        "  listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        f"  log.dirs={where}"
    )
    click.echo(
        "Then enable the features of its release, for example 4.3: bin/kafka-features.sh --bootstrap-server "
        "localhost:9092 upgrade --release-version 4.3"
    )
