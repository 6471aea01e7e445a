"""`kafkapy export DIR TARGET --to kraft | zookeeper:HOST:PORT`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkapy.process.progress_bar import ProgressBar
from kafkapy.tools.migrate.command_line import (
    cost,
    counted,
    named_directories,
    size,
    targets_for,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kafkapy.tools.migrate.exporting import Exported


@click.command("export")
@click.argument("directory", metavar="DIR")
@click.argument("target", metavar="[TARGET]", required=False)
@click.option(
    "--to", "kind", metavar="kraft|zookeeper:HOST:PORT[/PATH]", required=True, help="For which Kafka."
)
@click.option("--in-place", is_flag=True, help="Change DIR itself, which costs no disk space.")
def export(directory: str, target: str | None, kind: str, in_place: bool) -> None:
    """Write the data directory DIR as one that Apache Kafka opens.

    The broker must be stopped. kraft is for 3.9 and every later release; zookeeper, for 3.9 in ZooKeeper
    mode, also writes the topics and settings into the ZooKeeper that is named. Several directories are named
    as in log.dirs, with as many targets.
    """
    from kafkapy.tools.migrate.exporting import export_copy, export_in_place

    sources = named_directories(directory)
    targets = targets_for(sources, target, in_place)
    zookeeper = _zookeeper(kind)
    if targets is None:
        exported = export_in_place(sources, zookeeper)
    else:
        with ProgressBar("Copying partitions") as bar:
            exported = export_copy(sources, targets, zookeeper, bar.reach)
    _report(exported, sources if targets is None else targets, zookeeper, copied=targets is not None)


def _zookeeper(kind: str) -> str | None:
    """The address of the ZooKeeper; None for KRaft."""
    name, _, address = kind.partition(":")
    if kind != "kraft" and (name != "zookeeper" or not address):
        raise click.UsageError(f"--to {kind}: say kraft, or zookeeper:HOST:PORT.")
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
        click.echo("The broker was not stopped in order: Apache Kafka will recover the logs when it starts.")
    if plan.damaged:
        click.echo(
            f"Damaged, as in the original: {', '.join(plan.damaged)}. Apache Kafka does not know of it: "
            "consumers fail there, and a recovery of these segments would end the log there."
        )
    if plan.left:
        click.echo(f"Left behind, known to no topic: {', '.join(plan.left)}")
    if plan.not_carried:
        click.echo(f"Left behind, unknown to Apache Kafka 3.9: {', '.join(plan.not_carried)}")
    node_id = plan.cluster.node_id
    if zookeeper is not None:
        click.echo(f"Wrote {counted(exported.nodes, 'node')} to ZooKeeper at {zookeeper}")
        click.echo("Start Apache Kafka 3.9, its config/server.properties changed to:")
        click.echo(f"  broker.id={node_id}\n  zookeeper.connect={zookeeper}\n  log.dirs={where}")
        return
    click.echo("Start Apache Kafka 3.9 or later, its config/server.properties changed to:")
    click.echo(
        f"  process.roles=broker,controller\n  node.id={node_id}\n"
        "  controller.quorum.bootstrap.servers=localhost:9093\n"
        "  controller.listener.names=CONTROLLER\n"
        "  listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        f"  log.dirs={where}"
    )
    click.echo(
        "Then switch on what its release can do, for 4.3: bin/kafka-features.sh --bootstrap-server "
        "localhost:9092 upgrade --release-version 4.3"
    )
