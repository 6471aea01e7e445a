"""`kafkapy quotas`: what kafka-configs.sh does with quotas of users, clients and addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

from kafkapy.commands.options import Session, changes, connected, dry_run
from kafkapy.commands.units import setting_value
from kafkapy.errors import UserError

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_TYPES: Final = {"user": "user", "client": "client-id", "ip": "ip"}
_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


@click.group()
def quotas() -> None:
    """Show and change quotas of users, client ids and addresses (kafka-configs.sh).

    \b
    An entity is a user, a client id, both, or an address:
      --user alice  --client app  --user alice --client app  --ip 10.0.0.1
      --user-defaults, --client-defaults and --ip-defaults are for those that have no quota of their own.
    """


def _entity(function: Callable[..., Any]) -> Callable[..., Any]:
    for name, word in reversed(_TYPES.items()):
        function = click.option(f"--{name}-defaults", is_flag=True, help=f"The default of a {word}.")(
            function
        )
        function = click.option(f"--{name}", metavar="NAME", help=f"The {word}.")(function)
    return function


@quotas.command()
@_entity
@connected
def describe(session: Session, **entity: Any) -> None:
    """Show quotas, of all entities or of one; `kafkapy quotas list` is the same for all."""
    parts = _parts(entity)
    components = [(type_, _DEFAULT if name is None else _EXACT, name) for type_, name in parts.items()]
    session.output.rows(_described(session, components, strict=bool(parts)), _COLUMNS, empty=_EMPTY)


@quotas.command("list")
@connected
def list_(session: Session) -> None:
    """Show the quotas of all entities."""
    session.output.rows(_described(session, [], strict=False), _COLUMNS, empty=_EMPTY)


@quotas.command()
@_entity
@changes(f"{', '.join(_KEYS[:3])}, …", "Remove the quota.")
@dry_run
@connected
def alter(
    session: Session, sets: tuple[str, ...], unsets: tuple[str, ...], dry_run: bool, **entity: Any
) -> None:
    """Set or remove quotas: kafkapy quotas alter --user alice --set producer_byte_rate=10MiB."""
    from kafka.protocol.admin import AlterClientQuotasRequest

    from kafkapy.commands.connection.failures import check

    parts = _parts(entity)
    if not parts:
        raise UserError("name an entity: --user, --client, --ip, or one of their --…-defaults")
    operations = [*map(_operation, sets), *((_known(key), 0.0, True) for key in unsets)]
    if not operations:
        raise UserError("nothing is to be changed: give --set KEY=VALUE or --unset KEY")
    entry = AlterClientQuotasRequest.EntryData(
        entity=list(parts.items()),
        ops=operations,
    )
    answer = session.admin.to_controller(AlterClientQuotasRequest(entries=[entry], validate_only=dry_run))
    for each in answer.entries:
        check(each.error_code, each.error_message, _text(parts))
    row = {"entity": _text(parts), "result": "would be altered" if dry_run else "altered"}
    session.output.rows([row], ("entity", "result"))


_COLUMNS: Final = ("entity", "key", "value")
_EMPTY: Final = "there are no quotas."


def _parts(entity: dict[str, Any]) -> dict[str, str | None]:
    """By type: the name, or None for the default."""
    parts: dict[str, str | None] = {}
    for name, type_ in _TYPES.items():
        if entity[name] is not None and entity[f"{name}_defaults"]:
            raise UserError(f"--{name} and --{name}-defaults are given: give one of them")
        if entity[name] is not None:
            parts[type_] = entity[name]
        elif entity[f"{name}_defaults"]:
            parts[type_] = None
    return parts


def _text(parts: dict[str, str | None]) -> str:
    return ", ".join(f"{type_} {name if name is not None else '(default)'}" for type_, name in parts.items())


def _described(session: Session, components: list[Any], *, strict: bool) -> list[dict[str, Any]]:
    from kafka.protocol.admin import DescribeClientQuotasRequest

    from kafkapy.commands.connection.failures import check

    request = DescribeClientQuotasRequest(components=components, strict=strict)
    answer = session.admin.send(request)
    check(answer.error_code, answer.error_message, "quotas")
    rows = []
    for entry in answer.entries or ():
        names = {each.entity_type: each.entity_name for each in entry.entity}
        parts = {type_: names[type_] for type_ in _TYPES.values() if type_ in names}
        for each in entry.values:
            value = int(each.value) if each.value == int(each.value) else each.value
            rows.append({"entity": _text(parts), "parts": parts, "key": each.key, "value": value})
    return sorted(rows, key=lambda row: (str(row["entity"]), str(row["key"])))


def _operation(text: str) -> tuple[str, float, bool]:
    key, separator, value = text.partition("=")
    if not separator:
        raise UserError(f"--set {text}: expected KEY=VALUE")
    number = setting_value(_known(key), value)
    if not re.fullmatch(r"\d+(\.\d+)?", number):
        raise UserError(f"{key}={value}: expected a number, or a size such as 10MiB")
    return key, float(number), False


def _known(key: str) -> str:
    if key not in _KEYS:
        raise UserError(f"there is no quota {key}; there are {', '.join(_KEYS)}")
    return key
