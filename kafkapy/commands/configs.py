"""`kafkapy configs`: what kafka-configs.sh does with settings.

Users and quotas have commands of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from kafkapy.commands.connection.references import require_no_secret, resolved
from kafkapy.commands.options import Session, changes, connected, dry_run, settings
from kafkapy.commands.units import setting_value
from kafkapy.errors import UserError

# Kafka's words of kafka-configs.sh --entity-type -> the type of a resource
_TYPES: Final = {
    "topics": "TOPIC",
    "brokers": "BROKER",
    "broker-loggers": "BROKER_LOGGER",
    "client-metrics": "CLIENT_METRICS",
    "groups": "GROUP",
}
# Where a setting comes from that was changed for the very resource
_CHANGED: Final = {
    "topics": "DYNAMIC_TOPIC_CONFIG",
    "brokers": "DYNAMIC_BROKER_CONFIG",
    "broker-loggers": "DYNAMIC_BROKER_LOGGER_CONFIG",
    "client-metrics": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "groups": "DYNAMIC_GROUP_CONFIG",
}
_COLUMNS: Final = ("name", "key", "value", "source")


@click.group()
def configs() -> None:
    """Show and change settings of topics, brokers and others (kafka-configs.sh).

    \b
    TYPE is topics, brokers, broker-loggers, client-metrics or groups.
    NAME is a topic, a broker's id (or `default` for all brokers), a group or a subscription.
    """


_type = click.argument("type_", metavar="TYPE", type=click.Choice(list(_TYPES)))


@configs.command("list")
@click.argument("type_", metavar="[TYPE]", type=click.Choice(list(_TYPES)), required=False)
@connected
def list_(session: Session, type_: str | None) -> None:
    """List what has settings."""
    with session.admin.calls() as client:
        found = client.list_config_resources([_TYPES[type_]] if type_ else None)
    words = {value.lower(): word for word, value in _TYPES.items()}
    rows = [
        {"type": words[kind], "name": name or "default"}
        for kind, names in sorted(found.items())
        for name in sorted(names)
    ]
    session.output.rows(rows, ("type", "name"))


@configs.command()
@_type
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Show default values too.")
@click.option("--key", "keys", metavar="KEY", multiple=True, help="Only this setting.")
@click.option("--synonyms", is_flag=True, help="Show where a value comes from, and what it replaces.")
@connected
def describe(
    session: Session,
    type_: str,
    names: tuple[str, ...],
    everything: bool,
    keys: tuple[str, ...],
    synonyms: bool,
) -> None:
    """Show settings that were changed, or all."""
    rows = []
    for name, entries in described(session, type_, names or _names(session, type_)).items():
        default = type_ == "brokers" and name == "default"
        source = "DYNAMIC_DEFAULT_BROKER_CONFIG" if default else _CHANGED[type_]
        if missing := sorted(set(keys) - set(entries)):
            raise UserError(f"{type_} have no setting {missing[0]}")
        for key, entry in sorted(entries.items()):
            changed = entry["config_source"] == source
            if key not in keys if keys else not (everything or changed):
                continue
            row = {
                "name": name,
                "key": key,
                "value": "(sensitive)" if entry["is_sensitive"] else entry["value"],
                "source": entry["config_source"],
                "read_only": entry["read_only"],
                "synonyms": [
                    f"{each['source']}:{each['name']}={each['value']}" for each in entry.get("synonyms", ())
                ],
            }
            rows.append(row)
    columns = (*_COLUMNS, "synonyms") if synonyms else _COLUMNS
    session.output.rows(rows, columns, empty="no setting was changed; --all shows all.")


def _names(session: Session, type_: str) -> tuple[str, ...]:
    """All of a type that there are; brokers also have settings for all of them."""
    if type_ == "topics":
        return tuple(topic["name"] for topic in session.admin.topics(None))
    if type_ in ("brokers", "broker-loggers"):
        ids = tuple(f"{broker['broker_id']}" for broker in session.admin.brokers())
        return (*ids, "default") if type_ == "brokers" else ids
    with session.admin.calls() as client:
        return tuple(sorted(client.list_config_resources([_TYPES[type_]]).get(_TYPES[type_].lower(), ())))


@configs.command()
@_type
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@changes("Set it; 1d, 64MiB.", "Give it its default back.")
@dry_run
@connected
def alter(
    session: Session,
    type_: str,
    names: tuple[str, ...],
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change settings (kafka-configs.sh --add-config and --delete-config).

    In place of a secret, write ${NAME} for an environment variable, or ${file:PATH}.
    """
    changed: dict[str, str | None] = {}
    for key, value in settings(sets, "--set").items():
        require_no_secret("--set", key, value)
        changed[key] = setting_value(key, resolved(key, value))
    changed |= dict.fromkeys(unsets)
    if not changed:
        raise UserError("nothing is to be changed: give --set KEY=VALUE or --unset KEY")
    rows = alter_configs(session, type_, dict.fromkeys(names, changed), dry_run=dry_run)
    session.results(rows, ("name", "result"))


def described(session: Session, type_: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The settings by name and key; raises UserError for a name that is none."""
    from kafka.protocol.admin import DescribeConfigsRequest

    from kafkapy.commands.connection.failures import check

    found: dict[str, dict[str, Any]] = {}
    for name in names:
        resource = (_code(type_), _wire_name(name), None)
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        for result in session.admin.send(request, _broker_of(type_, name)).results:
            check(result.error_code, result.error_message, f"{type_} {name}")
            found[name] = {entry.name: _entry(entry) for entry in result.configs}
    return found


def alter_configs(
    session: Session, type_: str, changes: Mapping[str, Mapping[str, str | None]], *, dry_run: bool
) -> list[dict[str, Any]]:
    """Change settings by name; None gives one its default back."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    from kafkapy.commands.connection.failures import failure_text

    rows = []
    for name, values in changes.items():
        operations = [(key, 1 if value is None else 0, value) for key, value in values.items()]
        request = IncrementalAlterConfigsRequest(
            resources=[(_code(type_), _wire_name(name), operations)], validate_only=dry_run
        )
        for answer in session.admin.send(request, _broker_of(type_, name)).responses:
            code = answer.error_code
            result = "failed" if code else "would be altered" if dry_run else "altered"
            error = failure_text(code, answer.error_message) if code else None
            rows.append({"name": name, "result": result, "error": error})
    return rows


def _code(type_: str) -> int:
    from kafka.admin import ConfigResourceType

    return int(ConfigResourceType[_TYPES[type_]])


def _wire_name(name: str) -> str:
    return "" if name == "default" else name


def _broker_of(type_: str, name: str) -> int | None:
    """The broker that has to be asked: a broker knows its own settings only."""
    if type_ not in ("brokers", "broker-loggers") or name == "default":
        return None
    if not name.isdigit():
        raise UserError(f"{type_} {name}: expected a broker's id, or default")
    return int(name)


def _entry(entry: Any) -> dict[str, Any]:
    from kafka.admin import ConfigSourceType

    return {
        "value": entry.value,
        "read_only": entry.read_only,
        "is_sensitive": entry.is_sensitive,
        "config_source": ConfigSourceType(entry.config_source).name,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": ConfigSourceType(each.source).name}
            for each in entry.synonyms or ()
        ],
    }
