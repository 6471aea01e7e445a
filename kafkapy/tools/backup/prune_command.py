"""`kafkapy prune DEST --keep N`"""

from __future__ import annotations

import errno
from typing import Final

import click

from kafkapy.tools.backup.manifest import names_of
from kafkapy.tools.backup.pruning import Pruned, remove_all_but, remove_oldest
from kafkapy.tools.backup.store import BackupError, Store, open_store
from kafkapy.tools.backup.turn import turn

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@click.command()
@click.argument("destination", metavar="DEST")
@click.option(
    "--keep",
    required=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="How many of the last backups stay.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def prune(destination: str, keep: int, dry_run: bool) -> None:
    """Remove old backups from DEST, and the content that only they had.

    The moments between two backups that stay can still be restored. It may be interrupted: the backups that
    stay are whole all the while.
    """
    store = open_store(destination)
    try:
        if not names_of(store):
            raise BackupError(f"{destination} has no backups: name what kafkapy backup wrote to")
        try:
            pruned = _pruned(store, keep, dry_run=dry_run)
        except OSError as error:
            if error.errno not in _FULL or dry_run or (oldest := remove_oldest(store, keep)) is None:
                raise
            click.echo(f"removed the backup of {oldest}")
            pruned = _pruned(store, keep, dry_run=False)
    except OSError as error:
        raise BackupError(f"{destination} cannot be pruned: {error}") from error
    _report(pruned, dry_run)


def _pruned(store: Store, keep: int, *, dry_run: bool) -> Pruned:
    with turn(store, "kafkapy prune") as own:
        return remove_all_but(store, keep, own.require, dry_run=dry_run)


def _report(pruned: Pruned, dry_run: bool) -> None:
    for name in pruned.removed:
        click.echo(f"{'would remove' if dry_run else 'removed'} the backup of {name}")
    click.echo(
        f"{pruned.contents} files of {pruned.nbytes / 1e6:.1f} MB {'would go' if dry_run else 'have gone'};"
        f" {len(pruned.left)} backups stay, the first is of {pruned.left[0]}"
    )
