"""The command line: `kafkapy serve`, and the commands of other packages.

Exit codes: 0 success, or a broker was stopped by a signal; 1 failure; 2 wrong usage or settings; 130
interrupted; others are those of an error (`errors.py`). Errors are one line on standard error; so is wrong
usage, for which click would print three lines. The other commands are imported when they are used, so that
`kafkapy serve` starts without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import keyword
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kafkapy import service_manager
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listeners import parse_address
from kafkapy.errors import UserError
from kafkapy.logs.line_writer import LineWriter
from kafkapy.logs.set_up import EXIT_SECONDS, FORMATS, LEVELS, setup_logging
from kafkapy.loop.collector import Collector, importing
from kafkapy.terminal.os_failure import end_with
from kafkapy.terminal.standard_streams import prepare_streams

if TYPE_CHECKING:
    from kafkapy.configs.config import BrokerConfig

logger = logging.getLogger(__name__)


# name: the module with the click command of that name, the extra it needs, its line in `kafkapy --help`
_GROUPS: dict[str, tuple[str, str | None, str]] = {
    "check": ("kafkapy.tools.check.command", None, "Look for damage in a data directory, without a broker."),
    "diagnose": ("kafkapy.tools.diagnose.command", None, "Collect what a maintainer asks for in an archive."),
    "dump-log": ("kafkapy.tools.dump_log.command", None, "Show what is in the files of a data directory."),
    "backup": (
        "kafkapy.tools.backup.backup_command",
        None,
        "Back up a data directory, also of a running broker.",
    ),
    "restore": ("kafkapy.tools.backup.restore_command", None, "Make a data directory of a backup."),
    "prune": ("kafkapy.tools.backup.prune_command", None, "Remove old backups."),
    "export": (
        "kafkapy.tools.migrate.export_command",
        None,
        "Make a data directory one that Apache Kafka opens.",
    ),
    "import": (
        "kafkapy.tools.migrate.import_command",
        None,
        "Make a data directory of Apache Kafka kafkapy's.",
    ),
    "snapshot": (
        "kafkapy.tools.snapshot.command",
        None,
        "Copy a data directory, in no time, or into an archive.",
    ),
    "page": ("kafkapy.page.command", None, "Show any Kafka cluster in a browser."),
    "clock": ("kafkapy.remote.clock_command", None, "Advance the clock of brokers of `kafkapy run`."),
    "faults": ("kafkapy.remote.faults_command", None, "Break brokers of `kafkapy run` on purpose."),
    "run": ("kafkapy.run", None, "Run a command beside a broker of its own."),
    "pipeline": ("kafkapy.pipeline.commands.cli", "spark", "Turn topics into tables on Spark, and back."),
    "trace": (
        "kafkapy.trace.command",
        None,
        "Relay clients to any Kafka cluster, and show their requests.",
    ),
    "spark": ("kafkapy.spark.cli", "spark", "See whether Spark can run here; fetch its jars."),
}
# Commands for any Kafka cluster: name -> its line; the module in kafkapy/commands has the name too.
_CLUSTER_COMMANDS = {
    "acls": "List, add and remove ACLs.",
    "cluster": "Show its id, brokers, features and quorum; or run one, to try things out.",
    "configs": "Show and change settings of topics, brokers and others.",
    "consume": "Show records of topics.",
    "context": "Name clusters, and choose the one that commands are for.",
    "groups": "List, describe and delete groups, and reset their offsets.",
    "leaders": "Elect leaders of partitions.",
    "lag": "Show the lag of groups, once or all the time.",
    "log-dirs": "Show the log directories of brokers, and move replicas between them.",
    "mcp": "Serve views of a cluster to coding agents.",
    "ping": "See whether all brokers of a cluster answer, and how fast.",
    "produce": "Write lines of standard input as records.",
    "producers": "Show the producers that partitions know.",
    "quotas": "Show and change quotas of users, client ids and addresses.",
    "reassign": "Move partitions to other brokers.",
    "registry": "Serve schemas that a topic of the cluster keeps.",
    "tail": "Show the last records of topics, and follow them.",
    "top": "Show what topics, groups and brokers do now.",
    "tokens": "Create, show, renew and expire delegation tokens.",
    "topics": "List, describe, create, change and delete topics.",
    "transactions": "List and describe transactions, and abort those that hang.",
    "users": "List, set and delete users who log in by SCRAM.",
}
_GROUPS |= {
    name: (f"kafkapy.commands.{name.replace('-', '_')}", "tools", line)
    for name, line in _CLUSTER_COMMANDS.items()
    if name != "cluster"
}


def _imported(module: str, attribute: str, extra: str | None) -> Any:
    """What a module has; ends the program if a library is missing that `extra` brings."""
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if extra is None or not error.name or error.name.startswith("kafkapy"):
            raise
        _fail(f"{error.name} is not installed: pip install '.[{extra}]' in a checkout", code=1)


class _ClusterCommands(click.Group):
    """The commands of kafkapy/commands/cluster.py, which are imported when one of them is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        try:
            return self._others().list_commands(ctx)
        except ModuleNotFoundError:
            return []  # the help says the rest, and a cluster can be run

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        _imported("kafkapy.commands.cluster", "cluster", "tools")
        return self._others().get_command(ctx, cmd_name)

    @staticmethod
    def _others() -> click.Group:
        from kafkapy.commands.cluster import cluster as others

        return others


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_GROUPS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _GROUPS:
            return super().get_command(ctx, cmd_name)
        module, extra, _ = _GROUPS[cmd_name]
        attribute = cmd_name.replace("-", "_")
        if keyword.iskeyword(attribute):
            attribute += "_"
        command: click.Command = _imported(module, attribute, extra)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing the groups: their extras may be missing."""
        own = {
            name: command.get_short_help_str(80)
            for name, command in self.commands.items()
            if name not in _CLUSTER_COMMANDS
        }
        rows = {**own, **{name: line for name, (_, _, line) in _GROUPS.items()}}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(row for row in rows.items() if row[0] not in _CLUSTER_COMMANDS))
        with formatter.section("Commands for any Kafka cluster"):
            formatter.write_dl(sorted(_CLUSTER_COMMANDS.items()))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        prepare_streams()
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(2)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "kafkapy"
            message = error.format_message()
            message += "" if message.endswith((".", "?", "?)")) else "."
            _fail(f"{message[:1].lower()}{message[1:]} See {path} --help.", code=2)
        except click.Abort:
            _fail("interrupted.", code=130)
        except UserError as error:
            _fail(str(error), code=error.exit_status)
        except UnicodeEncodeError as error:
            # Arguments that are no text reach Python with surrogates in place of their bytes.
            if error.reason != "surrogates not allowed":
                raise
            _fail(f"{error.object!a} has bytes that are not UTF-8: correct that argument.", code=2)
        except OSError as error:
            end_with(error, code=1)
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kafkapy-broker", prog_name="kafkapy")
def main() -> None:
    """A Kafka broker in Python that stock clients use unchanged."""


@main.command()
@click.option("--data", metavar="DIR", type=click.Path(), help="Keep the data in DIR.")
@click.option("--listen", metavar="HOST:PORT", help="Listen there; port 0 takes a free one.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read settings from a server.properties.",
)
@click.option(
    "--container", is_flag=True, help="Read settings from variables KAFKA_*, as images of Kafka have them."
)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set one of Kafka's settings.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(FORMATS), default="text", show_default=True)
def serve(
    data: str | None,
    listen: str | None,
    config_file: Path | None,
    container: bool,
    settings: tuple[str, ...],
    log_level: str,
    log_format: str,
) -> None:
    """Run a broker until SIGTERM, SIGINT or SIGHUP.

    Without options it listens on 127.0.0.1:9092 and keeps its data in ./kafkapy-data.
    """
    from kafkapy.configs.config import BrokerConfig

    errors, output = setup_logging(log_level, log_format), LineWriter(sys.stdout)

    def fail(message: str, code: int) -> NoReturn:
        # A program that reads JSON cannot read anything else.
        if log_format == "json":
            logger.error(message)
        else:
            errors.write(f"kafkapy: {message}")
        errors.flush(EXIT_SECONDS)
        sys.exit(code)

    try:
        overrides = _overrides(data, listen, settings)
        source: Path | dict[str, str] | None = config_file
        if container:
            from kafkapy.configs.container import container_properties

            source = container_properties(os.environ, config_file)
        config = BrokerConfig.from_properties(source, overrides)
    except ConfigError as error:
        fail(str(error), 2)
    _raise_open_files_limit()
    from kafkapy.loop.event_loop import new_event_loop

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            failure = runner.run(_serve(config, output, errors))
        if failure is not None:
            fail(failure, 1)
    finally:
        output.flush(EXIT_SECONDS)
        errors.flush(EXIT_SECONDS)


@main.group(cls=_ClusterCommands, invoke_without_command=True)
@click.option("--brokers", type=click.IntRange(min=1), default=3, show_default=True, help="How many.")
@click.option(
    "--first-id", type=click.IntRange(min=0), default=1, show_default=True, help="The first broker's id."
)
@click.option("--data", metavar="DIR", type=click.Path(), help="Keep the data and the ports in DIR.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set one of Kafka's settings.")
@click.option("--log-level", type=click.Choice(LEVELS), default="warning", show_default=True)
@click.pass_context
def cluster(
    ctx: click.Context,
    brokers: int,
    first_id: int,
    data: str | None,
    settings: tuple[str, ...],
    log_level: str,
) -> None:
    """Show any Kafka cluster; without a command, run one in one process, to try things out.

    It ends with SIGTERM, SIGINT or SIGHUP. Without --data, its data is deleted at the end, and it takes free
    ports at each start. Brokers on machines of their own use `kafkapy serve` with --set
    zookeeper.connect=HOST:PORT.
    """
    if ctx.invoked_subcommand is not None:
        return
    from kafkapy.broker.core import StartError
    from kafkapy.cluster import Cluster

    errors, output = setup_logging(log_level, "text"), LineWriter(sys.stdout)
    _raise_open_files_limit()
    stopping = threading.Event()
    for number in _stop_signals():
        signal.signal(number, lambda *_: stopping.set())
    try:
        config = _overrides(None, None, settings)
        with Cluster(brokers, first_id=first_id, config=config, data_dir=data) as started:
            output.write(f"Listening on {started.bootstrap_servers}")
            stopping.wait()
            output.write("Stopping")
    except ConfigError as error:
        _fail(str(error), code=2)
    except StartError as error:
        _fail(str(error), code=1)
    finally:
        output.flush(EXIT_SECONDS)
        errors.flush(EXIT_SECONDS)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell.

    For bash: kafkapy completion bash > ~/.local/share/bash-completion/completions/kafkapy
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(main, {}, "kafkapy", "_KAFKAPY_COMPLETE").source())


async def _serve(config: BrokerConfig, output: LineWriter, errors: LineWriter) -> str | None:
    """Run a broker until it is stopped; return the reason if it failed, else None."""
    with importing():
        from kafkapy.broker.control import Control
        from kafkapy.broker.core import BrokerCore, StartError

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _stop_signals():
        loop.add_signal_handler(number, stopping.set)
    broker = BrokerCore(config)
    started = loop.time()
    stop, start = asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(broker.start())
    await asyncio.wait((stop, start), return_when=asyncio.FIRST_COMPLETED)
    if not start.done():
        # Recovery may take long, in threads that cannot be stopped. No client is served yet, so an end as by
        # SIGKILL does no harm; the next start recovers the rest.
        logger.info("Stopping in the middle of the start; the next start recovers the logs")
        output.flush(EXIT_SECONDS)
        errors.flush(EXIT_SECONDS)
        os._exit(0)
    try:
        start.result()
    except StartError as error:
        return str(error)
    logger.info(
        "Broker %d of cluster %s started in %.2f s with %d partitions",
        broker.node_id,
        broker.cluster_id,
        loop.time() - started,
        len(broker.logs.logs),
    )
    control = Control(broker)
    await control.start()
    # A program that waits for the next lines may read the log then.
    await broker.blocking(errors.flush, EXIT_SECONDS)
    for listener in broker.server.listening:
        output.write(f"Listening on {listener}")
    directories = ", ".join(str(directory.resolve()) for directory in config.log_dirs)
    output.write(f"Data in {directories} (durability={config['durability']})")
    service_manager.tell(service_manager.READY)
    Collector().start()
    failed = asyncio.ensure_future(broker.failed.wait())
    await asyncio.wait((stop, failed), return_when=asyncio.FIRST_COMPLETED)
    output.write("Stopping")
    service_manager.tell(service_manager.STOPPING)
    await control.stop()
    await broker.stop()
    if broker.failed.is_set():
        return "no log directory can be used any more. Check the disks, then start the broker again."
    return None


def _stop_signals() -> list[signal.Signals]:
    """The signals that stop a broker, as they stop Apache Kafka: those of the JVM's shutdown.

    SIGHUP, which a closed terminal sends, stays ignored if it is at the start, as after nohup.
    """
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


def _overrides(data: str | None, listen: str | None, settings: tuple[str, ...]) -> dict[str, str]:
    """The settings given as options.

    Raises ConfigError if --set and another option give the same setting.
    """
    from kafkapy.configs.config import given_settings

    overrides = given_settings(settings)
    for option, given, names in (
        ("--data", data, ("log.dirs", "log.dir")),
        ("--listen", listen, ("listeners",)),
    ):
        both = next((name for name in names if name in overrides), None)
        if given is not None and both is not None:
            raise ConfigError(f"{option} and --set {both} are given, which mean the same: give one of them")
    if data is not None:
        if not data:
            raise ConfigError("--data is empty: name a directory")
        overrides["log.dirs"] = data
    if listen is not None:
        parse_address("--listen", listen)
        overrides["listeners"] = f"PLAINTEXT://{listen}"
    return overrides


def _raise_open_files_limit() -> None:
    """Connections and segments need descriptors: take what the system allows."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _fail(message: str, *, code: int) -> NoReturn:
    click.echo(f"kafkapy: {message}", err=True)
    sys.exit(code)
