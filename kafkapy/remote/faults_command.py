"""`kafkapy faults`: what the brokers of `kafkapy run --faults PORT` do wrong on purpose."""

from __future__ import annotations

from typing import Any

import click

from kafkapy.remote.address import BROKERS, FAULTS, FAULTS_VARIABLE
from kafkapy.remote.client import ask, spoken


class _Asking:
    """Where the faults are, and of which broker."""

    def __init__(self, url: str | None, broker: int | None) -> None:
        self._url = url
        self.faults = FAULTS if broker is None else f"{BROKERS}/{broker}{FAULTS}"

    def __call__(self, method: str, path: str, told: object = None) -> Any:
        if self._url is None:
            raise click.UsageError(f"where are the faults served? Give --url, or set {FAULTS_VARIABLE}.")
        return ask(self._url, method, path, told)


@click.group()
@click.option(
    "--url",
    envvar=FAULTS_VARIABLE,
    metavar="URL",
    help=f"Where the faults are served; by default ${FAULTS_VARIABLE}.",
)
@click.option(
    "--broker",
    type=click.IntRange(min=0),
    help="Of this broker of a cluster; by default of all, counted together.",
)
@click.pass_context
def faults(ctx: click.Context, url: str | None, broker: int | None) -> None:
    """Break brokers that `kafkapy run --faults PORT` has started, on purpose."""
    ctx.obj = _Asking(url, broker)


@faults.command()
@click.argument("of")
@click.argument("do")
@click.argument("arguments", metavar="[NAME=VALUE]…", nargs=-1)
@click.pass_obj
def add(asked: _Asking, of: str, do: str, arguments: tuple[str, ...]) -> None:
    """Switch a fault on: OF is an API, `connections` or `disk`, and DO what happens.

    \b
    kafkapy faults add produce error code=NOT_LEADER_OR_FOLLOWER topic=orders times=2
    kafkapy faults add connections drop client_id=billing
    kafkapy faults add disk fill
    """
    _show([asked("POST", asked.faults, spoken(of, do, arguments))])


@faults.command("list")
@click.pass_obj
def list_(asked: _Asking) -> None:
    """Show the faults, and how often each was met."""
    _show(asked("GET", asked.faults)["faults"])


@faults.command()
@click.argument("number", type=click.IntRange(min=1))
@click.pass_obj
def remove(asked: _Asking, number: int) -> None:
    """Switch a fault off, by its number."""
    _show(asked("DELETE", f"{asked.faults}/{number}")["faults"])


@faults.command()
@click.pass_obj
def clear(asked: _Asking) -> None:
    """Switch all faults off."""
    _show(asked("DELETE", asked.faults)["faults"])


@faults.command()
@click.pass_obj
def brokers(asked: _Asking) -> None:
    """Show the brokers, whether they run, and whom they cannot reach."""
    for each in asked("GET", BROKERS)["brokers"]:
        _show_broker(each)


@faults.command()
@click.argument("number", type=click.IntRange(min=0))
@click.argument("do")
@click.pass_obj
def broker(asked: _Asking, number: int, do: str) -> None:
    """Start, stop, kill, pause, resume, cut-off or heal a broker.

    \b
    kafkapy faults broker 2 kill
    kafkapy faults broker 2 start
    """
    _show_broker(asked("POST", f"{BROKERS}/{number}", {"do": do.replace("-", "_")}))


def _show(shown: list[dict[str, Any]]) -> None:
    for each in shown:
        click.echo(f"{each['number']}\t{each['hits']} of {each['asked']}\t{each['fault']}")


def _show_broker(shown: dict[str, Any]) -> None:
    others = ", ".join(map(str, shown["cut_off_from"]))
    click.echo(f"{shown['broker']}\t{shown['state']}\t{f'cut off from {others}' if others else ''}".rstrip())
