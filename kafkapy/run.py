"""`kafkapy run [OPTIONS] -- COMMAND…`: a command beside a broker of its own.

    kafkapy run --topic orders:6 --registry -- npm test

The broker listens on a free port of 127.0.0.1. The command finds its address in the variables of VARIABLES,
that of a schema registry in REGISTRY_VARIABLE, and the data is deleted when the command has ended.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from kafkapy.configs.keys import ConfigError
from kafkapy.errors import UserError
from kafkapy.logs.set_up import EXIT_SECONDS, setup_logging
from kafkapy.remote.address import CLOCK_VARIABLE, FAULTS_VARIABLE, HOST

if TYPE_CHECKING:
    from kafkapy.cluster import Cluster
    from kafkapy.inprocess import Broker, ClockName
    from kafkapy.remote.server import RemoteServer

VARIABLES: Final = (
    "KAFKA_BOOTSTRAP_SERVERS",
    "BOOTSTRAP_SERVERS",
    "KAFKA_BROKERS",
    "KAFKA_URL",
    "SPRING_KAFKA_BOOTSTRAP_SERVERS",
)
"""The variables that programs and frameworks commonly read the address from."""

REGISTRY_VARIABLE: Final = "SCHEMA_REGISTRY_URL"

_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
_BY_SIGNAL: Final = 128
"""A shell reports the end of a command by signal 15 as 143."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--topic", "topics", metavar="NAME[:PARTITIONS]", multiple=True, help="Create this topic first."
)
@click.option("--env", "variables", metavar="NAME", multiple=True, help="Tell the address in NAME, too.")
@click.option(
    "--registry", is_flag=True, help="Run a schema registry, too: its URL is in SCHEMA_REGISTRY_URL."
)
@click.option(
    "--faults",
    "faults_port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help=f"Serve faults by HTTP on this port, 0 for a free one: their URL is in {FAULTS_VARIABLE}.",
)
@click.option(
    "--clock",
    type=click.Choice(["real", "manual"]),
    default="real",
    show_default=True,
    help=f"A manual one can be advanced by HTTP: its URL is in {CLOCK_VARIABLE}.",
)
@click.option(
    "--brokers",
    "count",
    type=click.IntRange(min=2),
    help="Run a cluster of so many brokers, in place of one broker alone.",
)
@click.option("--page", is_flag=True, help="Show the broker in a browser, at the address that is printed.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set one of Kafka's settings.")
def run(
    command: tuple[str, ...],
    topics: tuple[str, ...],
    variables: tuple[str, ...],
    registry: bool,
    faults_port: int | None,
    clock: ClockName,
    count: int | None,
    page: bool,
    settings: tuple[str, ...],
) -> int:
    """Run COMMAND beside a broker of its own, and exit as it does.

    The broker's address is in KAFKA_BOOTSTRAP_SERVERS, BOOTSTRAP_SERVERS, KAFKA_BROKERS, KAFKA_URL and
    SPRING_KAFKA_BOOTSTRAP_SERVERS. The broker and its data are gone when COMMAND has ended.
    """
    from kafkapy.broker.core import StartError
    from kafkapy.configs.config import given_settings

    wanted = dict(map(_topic, topics))
    _require_names(variables)
    errors = setup_logging("warning", "text")
    try:
        with _brokers(count, given_settings(settings), clock) as broker, ExitStack() as stack:
            _some(broker).create_topics(wanted)
            addresses = dict.fromkeys((*VARIABLES, *variables), broker.bootstrap_servers)
            if registry:
                from kafkapy.registry.server import SchemaRegistry

                logging.getLogger("kafka").setLevel(logging.CRITICAL)  # the registry itself tells what fails
                started = stack.enter_context(SchemaRegistry(broker.bootstrap_servers))
                addresses[REGISTRY_VARIABLE] = started.url
            if faults_port is not None or clock == "manual":
                url = stack.enter_context(_served(broker, faults_port or 0)).url
                addresses |= {} if faults_port is None else {FAULTS_VARIABLE: url}
                addresses |= {CLOCK_VARIABLE: url} if clock == "manual" else {}
            if page:
                from kafkapy.page.server import Page

                logging.getLogger("kafka").setLevel(logging.CRITICAL)  # the page itself tells what fails
                shown = stack.enter_context(
                    Page(
                        broker.bootstrap_servers,
                        schema_registry=addresses.get(REGISTRY_VARIABLE),
                        faults=addresses.get(FAULTS_VARIABLE),
                    )
                )
                click.echo(f"kafkapy: the broker is shown at {shown.url}", err=True)
            return _status(command, {**os.environ, **addresses})
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    except (StartError, ValueError) as error:
        raise UserError(str(error)) from None
    finally:
        errors.flush(EXIT_SECONDS)


def _brokers(count: int | None, config: Mapping[str, str], clock: ClockName) -> Broker | Cluster:
    """A broker alone, or a cluster; not started yet."""
    if count is None:
        from kafkapy.inprocess import Broker

        return Broker(config=config, clock=clock)
    from kafkapy.cluster import Cluster

    return Cluster(count, config=config, clock=clock)


def _some(brokers: Broker | Cluster) -> Broker:
    """A broker that can create topics."""
    from kafkapy.inprocess import Broker

    return brokers if isinstance(brokers, Broker) else brokers[next(iter(brokers))]


def _served(brokers: Broker | Cluster, port: int) -> RemoteServer:
    """Faults, brokers and the clock by HTTP; raises UserError."""
    from kafkapy.remote.brokers import Brokers
    from kafkapy.remote.server import RemoteServer

    try:
        return RemoteServer(Brokers(brokers), port)
    except OSError as error:
        raise UserError(f"--faults {port}: cannot listen on {HOST}:{port}: {error.strerror}") from None


def _topic(text: str) -> tuple[str, int]:
    name, separator, partitions = text.partition(":")
    if separator and not (partitions.isdecimal() and int(partitions)):
        raise click.UsageError(f"--topic {text}: expected NAME or NAME:PARTITIONS, such as orders:6.")
    return name, int(partitions or 1)


def _require_names(variables: Sequence[str]) -> None:
    for name in variables:
        if not name or "=" in name:
            raise click.UsageError(
                f"--env {name}: expected the NAME of a variable, which gets the address of the broker. "
                "Others are set before kafkapy, as in: NAME=VALUE kafkapy run …"
            )


def _status(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command, and pass signals on to it; return the exit status as a shell does."""
    try:
        process = subprocess.Popen(command, env=environment)
    except FileNotFoundError:
        click.echo(f"kafkapy: there is no command {command[0]}", err=True)
        return _NOT_FOUND
    except OSError as error:
        click.echo(f"kafkapy: {command[0]} cannot be run: {error.strerror}", err=True)
        return _NOT_EXECUTABLE
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as after nohup
            signal.signal(number, lambda received, _: process.send_signal(received))
    # A terminal sends SIGINT to the command as well, whose end counts.
    signal.signal(signal.SIGINT, lambda *_: None)
    code = process.wait()
    return code if code >= 0 else _BY_SIGNAL - code
