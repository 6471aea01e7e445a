"""`kafkapy clock`: the clock of the brokers of `kafkapy run --clock manual`."""

from __future__ import annotations

from typing import Final

import click

from kafkapy.remote.address import CLOCK, CLOCK_VARIABLE
from kafkapy.remote.client import ask

_ADVANCE_SECONDS: Final = 600.0
"""How long an advance may take: as long as what is due in it."""


@click.group()
@click.option(
    "--url",
    envvar=CLOCK_VARIABLE,
    metavar="URL",
    help=f"Where the clock is served; by default ${CLOCK_VARIABLE}.",
)
@click.pass_context
def clock(ctx: click.Context, url: str | None) -> None:
    """Advance the clock of brokers that `kafkapy run --clock manual` has started."""
    ctx.obj = url


@clock.command()
@click.pass_obj
def now(url: str | None) -> None:
    """Show the brokers' time."""
    click.echo(ask(_given(url), "GET", CLOCK)["now"])


@clock.command()
@click.argument("duration")
@click.option("--members-stay", is_flag=True, help="Members of groups are heard from all the while.")
@click.pass_obj
def advance(url: str | None, duration: str, members_stay: bool) -> None:
    """Let DURATION pass, such as 90s, 12h or 7d; end when all that was due in it has happened."""
    told = {"advance": duration, "members_stay": members_stay}
    click.echo(ask(_given(url), "POST", CLOCK, told, seconds=_ADVANCE_SECONDS)["now"])


def _given(url: str | None) -> str:
    if url is None:
        raise click.UsageError(f"where is the clock served? Give --url, or set {CLOCK_VARIABLE}.")
    return url
