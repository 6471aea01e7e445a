"""The options that all commands for a cluster have."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click
from click.core import ParameterSource

from kafkapy.commands.connection.client_config import client_config
from kafkapy.commands.connection.contexts import Contexts
from kafkapy.commands.connection.target import client_properties
from kafkapy.commands.output import FORMATS, Output, Row
from kafkapy.errors import UserError

if TYPE_CHECKING:
    from kafkapy.commands.decoding.decoder import Decoder

SECONDS: Final = 10.0


class Session:
    """One run of a command: its cluster, connected when it is needed, and its output."""

    def __init__(self, properties: dict[str, str], timeout: float, output: Output, stack: ExitStack) -> None:
        self.properties, self.timeout, self.output, self._stack = properties, timeout, output, stack
        self._admin: Any = None

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The arguments of kafka-python's clients; secrets are read once."""
        return client_config(self.properties)

    @property
    def admin(self) -> Any:
        """The connected cluster."""
        if self._admin is None:
            from kafkapy.commands.connection.admin import Admin

            self._admin = self._stack.enter_context(Admin(self.config, self.timeout))
        return self._admin

    def results(self, rows: Sequence[Row], columns: Sequence[str]) -> None:
        """Write what became of each item; exit with status 1 if a row has an `error`."""
        self.output.rows(rows, columns)
        failed = False
        for row in rows:
            if error := row.get("error"):
                failed = True
                if self.output.format == "text":
                    name = " ".join(
                        str(row[column]) for column in columns if column in row and column != "result"
                    )
                    click.echo(f"kafkapy: {name}: {error}", err=True)
        if failed:
            sys.exit(1)


def names_of_contexts(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The contexts whose names begin so, for the completion of shells."""
    try:
        return [name for name in sorted(Contexts().contexts) if name.startswith(incomplete)]
    except UserError:
        return []


def connected(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the cluster and the format; the function gets a Session."""

    @functools.wraps(function)
    def run(
        *args: Any,
        bootstrap_server: str | None,
        command_config: Path | None,
        context: str | None,
        timeout: float,
        format_: str,
        **kwargs: Any,
    ) -> Any:
        with ExitStack() as stack:
            properties = client_properties(bootstrap_server, command_config, context)
            try:
                return function(Session(properties, timeout, Output(format_), stack), *args, **kwargs)
            except ModuleNotFoundError as error:
                if not error.name or error.name.startswith("kafkapy"):
                    raise
                raise UserError(
                    f"{error.name} is not installed: pip install '.[tools]' in a checkout"
                ) from None

    for option in (
        click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True),
        click.option(
            "--timeout",
            metavar="SECONDS",
            type=click.FloatRange(min=0, min_open=True),
            default=SECONDS,
            show_default=True,
            help="How long to wait for the cluster.",
        ),
        click.option(
            "--context",
            metavar="NAME",
            envvar="KAFKAPY_CONTEXT",
            help="The cluster of a context.",
            shell_complete=names_of_contexts,
        ),
        click.option(
            "--command-config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Kafka's client properties: security.protocol, sasl.*, ssl.*.",
        ),
        click.option("--bootstrap-server", metavar="HOST:PORT", help="The cluster, by one or more brokers."),
    ):
        run = option(run)
    return run


def changes(set_help: str, unset_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options `sets` and `unsets`, which also have the words of kafka-configs.sh."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        unset = click.option(
            "--unset", "-d", "--delete-config", "unsets", metavar="KEY", multiple=True, help=unset_help
        )
        set_ = click.option(
            "--set", "-c", "--add-config", "sets", metavar="KEY=VALUE", multiple=True, help=set_help
        )
        return set_(unset(function))

    return add


schema_registry_option: Final = click.option(
    "--schema-registry",
    metavar="URL",
    envvar="SCHEMA_REGISTRY_URL",
    help="Decode keys and values by the schemas of this registry.",
)


def registry_address(schema_registry: str) -> str:
    """The address that the option has, with its references replaced; raises UserError."""
    from kafkapy.commands.connection.references import REFERENCE, resolved

    option = "--schema-registry"
    before, at, host = schema_registry.rpartition("@")
    scheme, slashes, login = before.partition("://")
    source = click.get_current_context().get_parameter_source("schema_registry")
    password = login.partition(":")[2]
    if source is ParameterSource.COMMANDLINE and password and not REFERENCE.fullmatch(password):
        raise UserError(
            f"{option}: others can read arguments; write http://USER:${{NAME}}@HOST:PORT, or set the"
            " variable SCHEMA_REGISTRY_URL"
        )
    # A login is percent-encoded in a URL, and a secret is not.
    login = REFERENCE.sub(lambda found: quote(resolved(option, found[0]), safe=":"), login)
    return f"{scheme}{slashes}{login}{at}{resolved(option, host)}"


def decoder_of(schema_registry: str | None) -> Decoder:
    """What decodes by the registry of an option; raises UserError for a wrong one."""
    from kafkapy.commands.decoding.decoder import Decoder
    from kafkapy.commands.decoding.schemas import Schemas

    return Decoder(None if schema_registry is None else Schemas(registry_address(schema_registry)))


def filtered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose and decode records; the function gets a `choice` of them."""

    @functools.wraps(function)
    def run(
        *args: Any, key: str | None, where: tuple[str, ...], schema_registry: str | None, **kwargs: Any
    ) -> Any:
        from kafkapy.commands.record_filter import RecordFilter

        return function(*args, choice=RecordFilter(key, where, decoder_of(schema_registry)), **kwargs)

    for option in (
        schema_registry_option,
        click.option(
            "--where",
            metavar="CONDITION",
            multiple=True,
            help="Only records like this: total>100, customer.name=alice, lines[0].sku~^A, $header.trace=17.",
        ),
        click.option("--key", metavar="REGEX", help="Only records whose key has a match."),
    ):
        run = option(run)
    return run


def dry_run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--dry-run`."""
    return click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")(function)


def yes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--yes`, for `confirm`."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask before destroying something.")(function)


def confirm(question: str, *, sure: bool) -> None:
    """Ask before something is destroyed, unless the user is `sure`; raises UserError for a no."""
    if sure:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{question} Nobody can be asked here: add --yes to do it")
    if not click.confirm(question, err=True):
        raise UserError("nothing was changed")


def settings(pairs: Iterable[str], option: str) -> dict[str, str]:
    """`KEY=VALUE` options as a dict; raises UserError for one that is none."""
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise UserError(f"{option} {pair}: expected KEY=VALUE")
        found[name.strip()] = value.strip()
    return found
