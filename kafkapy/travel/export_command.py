"""`kafkapy export DIR TARGET --to kraft | zookeeper:HOST:PORT`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkapy.config_keys import ConfigError
from kafkapy.listeners import parse_address
from kafkapy.travel.command_line import cost, counted, named_directories, progress_bar, size, targets_for
from kafkapy.travel.travel_error import TravelError

if TYPE_CHECKING:
    from pathlib import Path

    from kafkapy.travel.exporting import Exported, Kraft, ZooKeeper


@click.command("export")
@click.argument("directory", metavar="DIR")
@click.argument("target", metavar="[TARGET]", required=False)
@click.option(
    "--to", "kind", metavar="kraft|zookeeper:HOST:PORT[/PATH]", required=True, help="For which Kafka."
)
@click.option("--in-place", is_flag=True, help="Change DIR itself, which costs no disk space.")
@click.option(
    "--controller",
    metavar="HOST:PORT",
    default="localhost:9093",
    show_default=True,
    help="KRaft: where its controller will listen.",
)
def export(directory: str, target: str | None, kind: str, in_place: bool, controller: str) -> None:
    """Write the data directory DIR as one that Apache Kafka opens.

    The broker must be stopped. kraft is for 3.9 and every later release; zookeeper, for 3.9 in ZooKeeper
    mode, also writes the topics and settings into the ZooKeeper that is named. Several directories are named
    as in log.dirs, with as many targets.
    """
    from kafkapy.travel.exporting import export_copy, export_in_place

    sources = named_directories(directory)
    targets = targets_for(sources, target, in_place)
    to = _destination(kind, controller)
    if targets is None:
        exported = export_in_place(sources, to)
    else:
        with progress_bar("Copying") as progress:
            exported = export_copy(sources, targets, to, progress)
    _report(exported, sources if targets is None else targets, to, copied=targets is not None)


def _destination(kind: str, controller: str) -> Kraft | ZooKeeper:
    from kafkapy.travel.exporting import Kraft, ZooKeeper

    name, _, address = kind.partition(":")
    if kind == "kraft":
        try:
            return Kraft(parse_address("--controller", controller))
        except ConfigError as error:
            raise TravelError(str(error)) from None
    if name != "zookeeper" or not address:
        raise TravelError(f"--to {kind}: say kraft, or zookeeper:HOST:PORT.")
    return ZooKeeper(address)


def _report(exported: Exported, paths: list[Path], to: Kraft | ZooKeeper, *, copied: bool) -> None:
    from kafkapy.travel.exporting import Kraft

    plan = exported.plan
    where = ",".join(str(path.absolute()) for path in paths)
    image = plan.cluster.image
    amount = f"{counted(len(image.topics), 'topic')} with {counted(len(plan.topic_ids), 'partition')}"
    if copied:
        click.echo(f"Exported {amount} ({size(exported.transfer.nbytes)}) to {where}")
        click.echo(cost(exported.transfer))
    else:
        click.echo(f"Exported {amount}, in place: {where}")
    if not exported.clean:
        click.echo("The broker was not stopped in order: Apache Kafka will recover the logs when it starts.")
    if plan.left:
        click.echo(f"Left behind, known to no topic: {', '.join(plan.left)}")
    if not isinstance(to, Kraft):
        click.echo(f"Wrote {counted(exported.nodes, 'node')} to ZooKeeper at {to.address}")
        click.echo("Start Apache Kafka 3.9 with:")
        click.echo(
            f"  broker.id={plan.cluster.node_id}\n  zookeeper.connect={to.address}\n  log.dirs={where}"
        )
        return
    host, port = to.controller
    click.echo("Start Apache Kafka 3.9 or later, as broker and controller in one, with:")
    click.echo(
        "  process.roles=broker,controller\n"
        f"  node.id={plan.cluster.node_id}\n"
        f"  controller.quorum.bootstrap.servers={host}:{port}\n"
        "  controller.listener.names=CONTROLLER\n"
        f"  listeners=PLAINTEXT://{host}:9092,CONTROLLER://{host}:{port}\n"
        f"  log.dirs={where}"
    )
    click.echo(
        "Then switch on what its release can do, for 4.3: bin/kafka-features.sh --bootstrap-server "
        f"{host}:9092 upgrade --release-version 4.3"
    )
