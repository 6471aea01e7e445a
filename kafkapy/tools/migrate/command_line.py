"""The common part of the commands `kafkapy export` and `kafkapy import`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from kafkapy.metadata.zookeeper_access import EVERYBODY, ZooKeeperAccess
from kafkapy.snapshot import require_outside
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.transfer import Transfer


def named_directories(text: str) -> list[Path]:
    """Return the directories of an argument, which are separated by commas as in log.dirs."""
    return [Path(each.strip()) for each in text.split(",") if each.strip()]


zookeeper_config: Final = click.option(
    "--zookeeper-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A broker's server.properties: how it comes in at ZooKeeper.",
)
"""The option for a ZooKeeper that wants TLS or a login."""

_OF_ZOOKEEPER: Final = ("zookeeper.", "config.providers")
"""What counts of its file; providers would fill in passwords, and are refused, as a broker refuses them."""


def access_to(zookeeper: str | None, config: Path | None) -> ZooKeeperAccess:
    """Return how to come in at ZooKeeper: as a broker with these properties would.

    Raises:
        UsageError: there is a file, but no ZooKeeper.
        MigrationError: the file or one of its settings for ZooKeeper is wrong.
    """
    if config is None:
        return EVERYBODY
    if zookeeper is None:
        raise click.UsageError("--zookeeper-config: no ZooKeeper is named.")
    from kafkapy.configs.config import BrokerConfig, given_properties
    from kafkapy.configs.keys import ConfigError
    from kafkapy.security.zookeeper import zookeeper_access

    try:
        given = given_properties(config)
        return zookeeper_access(
            BrokerConfig({name: text for name, text in given.items() if name.startswith(_OF_ZOOKEEPER)})
        )
    except ConfigError as error:
        raise MigrationError(f"--zookeeper-config: {error}") from None


def targets_for(sources: Sequence[Path], target: str | None, in_place: bool) -> list[Path] | None:
    """Return the directories to make; None if the sources are changed in place.

    Raises:
        UsageError: there are not as many targets as sources; both or neither of target and --in-place are
            given; or a directory is inside another.
        SnapshotError: a target is inside the data directory of another broker.
    """
    if not sources:
        raise click.UsageError("No directory is named: give the data directory of a broker.")
    if in_place:
        if target is not None:
            raise click.UsageError(
                f"--in-place changes the directory itself: give either {target} or --in-place."
            )
        return None
    if target is None:
        raise click.UsageError("Name the directory to make, or give --in-place to change this one.")
    targets = named_directories(target)
    if len(targets) != len(sources):
        raise click.UsageError(
            f"There are {len(sources)} directories: name {len(sources)} targets, separated by commas."
        )
    others = [*sources, *targets]
    for index, path in enumerate(targets, len(sources)):
        for other in others[:index] + others[index + 1 :]:
            if path.resolve().is_relative_to(other.resolve()):
                raise click.UsageError(f"{path} is inside {other}: name a directory outside it.")
        require_outside(path)
    return targets


def cost(transfer: Transfer) -> str:
    """Return a line that says how much disk space was used."""
    text = f"Written: {size(transfer.written)}"
    if transfer.shared:
        text += f"; {size(transfer.shared)} are shared on disk with the original"
    return text + "."


def size(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.1f} MB"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
