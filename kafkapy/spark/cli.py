"""`kafkapy spark doctor`, `kafkapy spark jars` and `kafkapy spark pack`: none starts Spark."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kafkapy.spark.checks import as_lakes, doctor
from kafkapy.spark.installation import LAKES, STORES, find_spark
from kafkapy.spark.jars import default_cache, fetch_to, size
from kafkapy.spark.pack import pack, settings

_lake = click.option(
    "--lake",
    "lakes",
    type=click.Choice(LAKES),
    multiple=True,
    help="With this table format; may be repeated.",
)
_store = click.option(
    "--store",
    "stores",
    type=click.Choice(list(STORES)),
    multiple=True,
    help="With Hadoop's connector of this store.",
)


class _Shown(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr, flush=True)


@contextlib.contextmanager
def notes(*packages: str) -> Iterator[None]:
    """Show what these packages log at level INFO, to show the progress of long work."""
    shown, former = _Shown(), {name: logging.getLogger(name).level for name in packages}
    for name in packages:
        logging.getLogger(name).addHandler(shown)
        logging.getLogger(name).setLevel(logging.INFO)
    try:
        yield
    finally:
        for name, level in former.items():
            logging.getLogger(name).removeHandler(shown)
            logging.getLogger(name).setLevel(level)


@click.group()
def spark() -> None:
    """Check whether Spark can run here, or bring jars and packages to where it runs."""


@spark.command("doctor")
@_lake
@_store
@click.option("--bootstrap", metavar="HOST:PORT", help="Also check whether this broker answers.")
def doctor_command(lakes: tuple[str, ...], stores: tuple[str, ...], bootstrap: str | None) -> int:
    """Check what Spark lacks here, and show the remedies.

    BAD is what keeps a session from starting, and makes the exit status 1; GET is what it fetches first.
    """
    checks = doctor(lakes, bootstrap=bootstrap, stores=stores)
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = "BAD" if not check.ok else "GET" if check.remedy else "ok "
        click.echo(f"{mark}  {check.name:<{width}}  {check.detail}")
        if check.remedy:
            click.echo(f"     {'':<{width}}  remedy: {check.remedy}")
    return 0 if all(check.ok for check in checks) else 1


@spark.command("jars")
@click.option(
    "--to",
    "folder",
    metavar="DIR",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to fill.",
)
@_lake
@_store
def jars_command(folder: Path, lakes: tuple[str, ...], stores: tuple[str, ...]) -> None:
    """Fetch jars for machines without a network.

    Set KAFKAPY_SPARK_JARS=DIR there, or call kafkapy.spark.session(jars=DIR).
    """
    with notes("kafkapy.spark"):
        copied = fetch_to(folder, find_spark(), as_lakes(lakes), default_cache(), stores)
    click.echo(f"{size(copied)}, in {folder}")


@spark.command("pack")
@click.option(
    "--to",
    "archive",
    metavar="FILE",
    default="kafkapy-packages.tar.gz",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive to write.",
)
def pack_command(archive: Path) -> None:
    """Pack kafkapy and its dependencies for the executors of a cluster.

    They need a Python of the same minor version as this one, and no packages of their own.
    """
    click.echo(f"{pack(archive) / 1e6:.1f} MB, in {archive}; Spark's settings for it:")
    for name, value in settings(archive).items():
        click.echo(f"  {name}: {value}")
