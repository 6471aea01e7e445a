"""What the commands `kafkapy export` and `kafkapy import` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kafkapy.tools.migrate.transfer import Transfer


def named_directories(text: str) -> list[Path]:
    """The directories of an argument, which may name several as log.dirs does."""
    return [Path(each.strip()) for each in text.split(",") if each.strip()]


def targets_for(sources: Sequence[Path], target: str | None, in_place: bool) -> list[Path] | None:
    """The directories to make; None where the sources are changed in place.

    Raises:
        UsageError: not as many as sources, both or neither of target and --in-place, one within another.
    """
    if not sources:
        raise click.UsageError("No directory is named: give the data directory of a broker.")
    if in_place:
        if target is not None:
            raise click.UsageError(
                f"--in-place changes the directory itself: leave {target} out, or the option."
            )
        return None
    if target is None:
        raise click.UsageError("Name the directory to make, or say --in-place to change this one.")
    targets = named_directories(target)
    if len(targets) != len(sources):
        raise click.UsageError(
            f"{len(sources)} directories go to as many: name {len(sources)} targets, separated by commas."
        )
    others = [*sources, *targets]
    for index, path in enumerate(targets, len(sources)):
        for other in others[:index] + others[index + 1 :]:
            if path.resolve().is_relative_to(other.resolve()):
                raise click.UsageError(f"{path} lies in {other}: name a directory beside it.")
    return targets


def cost(transfer: Transfer) -> str:
    """What it cost on disk, for people."""
    text = f"Written: {size(transfer.written)}"
    if transfer.shared:
        text += f"; {size(transfer.shared)} are the same bytes on disk as the original's"
    return text + "."


def size(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.1f} MB"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
