"""`kafkapy trace`: the proxy, and what is done with its file: `read`, `replay`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listeners import parse_address
from kafkapy.errors import UserError

if TYPE_CHECKING:
    from kafkapy.trace.exchange import Exchange
    from kafkapy.trace.lines import Filters


def _filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say what is shown."""
    for option in reversed(
        [
            click.option("--full", is_flag=True, help="Show every field of requests and answers, too."),
            click.option("--api", "apis", metavar="NAME", multiple=True, help="Show only this API: Fetch."),
            click.option(
                "--client-id",
                "client_ids",
                metavar="NAME",
                multiple=True,
                help="Only this; * is any text.",
            ),
            click.option(
                "--topic", "topics", metavar="NAME", multiple=True, help="Only this; * is any text."
            ),
            click.option("--errors", "only_errors", is_flag=True, help="Only what failed."),
        ]
    ):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@click.option("--to", metavar="HOST:PORT", help="A broker of the cluster.")
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:0", help="By default a free port.")
@click.option("--write", "file", metavar="FILE", type=click.Path(path_type=Path), help="Append all to FILE.")
@_filtered
@click.pass_context
def trace(
    context: click.Context,
    /,
    to: str | None,
    listen: str,
    file: Path | None,
    full: bool,
    **filters: Any,
) -> None:
    """Relay clients to a cluster, and print a line for each of their requests.

    Clients use the address that is printed first. Filters say what is printed; all is written to FILE.
    """
    if context.invoked_subcommand is not None:
        return
    if to is None:
        raise click.UsageError("--to is missing: name a broker of the cluster")
    from kafkapy.loop.event_loop import new_event_loop
    from kafkapy.trace.lines import Lines
    from kafkapy.trace.trace_file import TraceWriter

    try:
        here, there = parse_address("--listen", listen), parse_address("--to", to)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    lines = Lines(_filters(**filters), full=full)
    with contextlib.ExitStack() as stack:
        writer = None if file is None else stack.enter_context(TraceWriter(file))

        def sink(exchange: Exchange) -> None:
            lines.show(exchange)
            if writer is not None:
                writer.write(exchange)

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_relay(here, there, sink))


@trace.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@_filtered
def read(file: Path, full: bool, **filters: Any) -> None:
    """Show what `kafkapy trace --write FILE` has written."""
    from kafkapy.trace.lines import Lines
    from kafkapy.trace.trace_file import read_trace

    lines = Lines(_filters(**filters), full=full)
    for exchange in read_trace(file):
        lines.show(exchange)


@trace.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--to", metavar="HOST:PORT", required=True, help="The broker that gets the requests.")
def replay(file: Path, to: str) -> int:
    """Send the requests of FILE to another broker, and say where its answers differ.

    It does what the requests do: it writes records, deletes topics, commits offsets. Exit status 1: an answer
    differs.
    """
    from kafkapy.trace.facts import printable
    from kafkapy.trace.replay import replay
    from kafkapy.trace.trace_file import read_trace

    try:
        there = parse_address("--to", to)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    result = asyncio.run(replay(read_trace(file), there))
    for difference in result.differences:
        exchange = difference.exchange
        version = exchange.header.api_version if exchange.header is not None else -1
        for way in difference.ways:
            click.echo(printable(f"#{exchange.connection} {exchange.api} v{version}: {way}"))
    click.echo(f"same: {result.same}, different: {len(result.differences)}, left out: {result.left_out}")
    return 1 if result.differences else 0


def _filters(
    apis: tuple[str, ...], client_ids: tuple[str, ...], topics: tuple[str, ...], only_errors: bool
) -> Filters:
    from kafkapy.protocol.messages.api_table import API_SCHEMAS
    from kafkapy.trace.lines import Filters

    known = {api.name.lower() for api in API_SCHEMAS.values()}
    for name in apis:
        if name.lower() not in known:
            raise UserError(f"--api {name}: Kafka has no such API; names are as in Fetch and JoinGroup")
    return Filters(frozenset(name.lower() for name in apis), client_ids, topics, only_errors)


async def _relay(listen: tuple[str, int], to: tuple[str, int], sink: Callable[[Exchange], None]) -> None:
    """Relay until a signal stops it, or the output fails."""
    from kafkapy.trace.relay import Relay

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    relay = Relay(listen, to, sink)
    click.echo(f"Listening on {await relay.start()}")
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((stop, relay.failed), return_when=asyncio.FIRST_COMPLETED)
    await relay.stop()
    if relay.failed.done():
        relay.failed.result()
