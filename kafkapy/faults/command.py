"""`kafkapy faults`: the faults of a broker that `kafkapy run --faults PORT` has started."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Final

import click

from kafkapy.errors import UserError
from kafkapy.faults.address import PATH, VARIABLE

_SECONDS: Final = 30


@click.group()
@click.option(
    "--url", envvar=VARIABLE, metavar="URL", help=f"Where the faults are served; by default ${VARIABLE}."
)
@click.pass_context
def faults(ctx: click.Context, url: str | None) -> None:
    """Break a broker that `kafkapy run --faults PORT` has started, on purpose."""
    ctx.obj = url


@faults.command()
@click.argument("of")
@click.argument("do")
@click.argument("arguments", metavar="[NAME=VALUE]…", nargs=-1)
@click.pass_obj
def add(url: str | None, of: str, do: str, arguments: tuple[str, ...]) -> None:
    """Switch a fault on: OF is an API, `connections` or `disk`, and DO what happens.

    \b
    kafkapy faults add produce error code=NOT_LEADER_OR_FOLLOWER topic=orders times=2
    kafkapy faults add connections drop client_id=billing
    kafkapy faults add disk fill
    """
    told = dict(_pair(argument) for argument in arguments)
    _show([_asked(url, "POST", PATH, {**told, "of": of, "do": do})])


@faults.command("list")
@click.pass_obj
def list_(url: str | None) -> None:
    """Show the faults, and how often each was met."""
    _show(_asked(url, "GET", PATH)["faults"])


@faults.command()
@click.argument("number", type=click.IntRange(min=1))
@click.pass_obj
def remove(url: str | None, number: int) -> None:
    """Switch a fault off, by its number."""
    _show(_asked(url, "DELETE", f"{PATH}/{number}")["faults"])


@faults.command()
@click.pass_obj
def clear(url: str | None) -> None:
    """Switch all faults off."""
    _show(_asked(url, "DELETE", PATH)["faults"])


def _pair(argument: str) -> tuple[str, str]:
    name, separator, value = argument.partition("=")
    if not separator or name in ("of", "do"):
        raise click.UsageError(f"{argument}: expected NAME=VALUE, such as times=2.")
    return name, value


def _asked(url: str | None, method: str, path: str, told: object = None) -> Any:
    """The answer of the broker's process; raises UserError."""
    if url is None:
        raise click.UsageError(f"where are the faults served? Give --url, or set {VARIABLE}.")
    if not url.startswith("http://"):
        raise click.UsageError(f"--url {url}: expected an address such as http://127.0.0.1:8642.")
    data = None if told is None else json.dumps(told).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url.rstrip("/") + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise UserError(_why(error)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise UserError(f"{url} does not answer: {why}") from None


def _why(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url} answers {error.code}: it serves no faults"


def _show(shown: list[dict[str, Any]]) -> None:
    for each in shown:
        click.echo(f"{each['number']}\t{each['hits']} of {each['asked']}\t{each['fault']}")
