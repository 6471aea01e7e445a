"""A file of topics, and what has to change for the cluster to have them.

    topics:
      orders:
        partitions: 6
        replication_factor: 3
        configs:
          retention.ms: 7d

All of it is optional. Partitions can only grow, and the replication factor of a topic that exists is
changed by `kafkapy reassign`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from kafkapy.commands.configs import alter_configs, described
from kafkapy.commands.options import Session
from kafkapy.commands.topics import add_partitions, create_topics
from kafkapy.commands.units import setting_value
from kafkapy.errors import UserError

_FIELDS: Final = frozenset({"partitions", "replication_factor", "configs"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic of the file; None for what it leaves open."""

    partitions: int | None
    replication_factor: int | None
    configs: dict[str, str] | None


@dataclass(slots=True)
class Plan:
    """The changes, in the order in which they are made."""

    create: dict[str, Wanted] = field(default_factory=dict)
    grow: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By topic: partitions before and after."""
    alter: dict[str, dict[str, tuple[str | None, str | None]]] = field(default_factory=dict)
    """By topic and setting: the value before and after; None for the default."""

    @classmethod
    def of(cls, path: Path, session: Session) -> Self:
        """The changes for a file; raises UserError for what cannot be done."""
        wanted, plan = read_topics(path), cls()
        existing = {topic["name"]: topic for topic in session.admin.topics()}
        for name, topic in wanted.items():
            if name not in existing:
                plan.create[name] = topic
                continue
            partitions = existing[name]["partitions"]
            if topic.partitions is not None and topic.partitions != len(partitions):
                if topic.partitions < len(partitions):
                    raise UserError(
                        f"{path}: {name} has {len(partitions)} partitions: Kafka cannot make them fewer"
                    )
                plan.grow[name] = len(partitions), topic.partitions
            factor = max(len(partition["replica_nodes"]) for partition in partitions)
            if topic.replication_factor not in (None, factor):
                raise UserError(
                    f"{path}: {name} has replication factor {factor}: kafkapy reassign changes the replicas"
                )
        changed = [name for name in wanted if name in existing and wanted[name].configs is not None]
        for name, entries in described(session, "topics", changed).items():
            plan._compare(name, wanted[name].configs or {}, entries)
        return plan

    @property
    def removes(self) -> bool:
        """Whether settings get their defaults back."""
        return any(after is None for changes in self.alter.values() for _, after in changes.values())

    def rows(self) -> list[dict[str, Any]]:
        """A row for each change."""
        rows: list[dict[str, Any]] = []
        for name, topic in self.create.items():
            known = {"partitions": topic.partitions, "replication_factor": topic.replication_factor}
            after = {key: value for key, value in known.items() if value is not None} | (topic.configs or {})
            rows.append({"topic": name, "change": "create", "before": None, "after": after})
        for name, (before, count) in self.grow.items():
            rows.append({"topic": name, "change": "partitions", "before": before, "after": count})
        for name, changes in self.alter.items():
            for key, (old, new) in changes.items():
                rows.append({"topic": name, "change": key, "before": old, "after": new or "default"})
        return rows

    def check(self, session: Session) -> None:
        """Let the brokers validate all changes; raises UserError for the first that they refuse."""
        self._send(session, dry_run=True)

    def carry_out(self, session: Session) -> None:
        """Make the changes; raises UserError for the first that fails."""
        self._send(session, dry_run=False)

    def _compare(
        self, name: str, configs: Mapping[str, str], entries: Mapping[str, Mapping[str, Any]]
    ) -> None:
        changes: dict[str, tuple[str | None, str | None]] = {}
        for key, value in configs.items():
            if key not in entries or entries[key]["value"] != value:
                changes[key] = entries.get(key, {}).get("value"), value
        for key, entry in entries.items():
            if key not in configs and entry["config_source"] == "DYNAMIC_TOPIC_CONFIG":
                changes[key] = entry["value"], None
        if changes:
            self.alter[name] = changes

    def _send(self, session: Session, *, dry_run: bool) -> None:
        rows: list[dict[str, Any]] = []
        if self.create:
            options = {
                name: {
                    "num_partitions": topic.partitions or -1,
                    "replication_factor": topic.replication_factor or -1,
                    "configs": topic.configs or {},
                }
                for name, topic in self.create.items()
            }
            rows += create_topics(session, options, dry_run=dry_run)
        if self.grow:
            wanted = {name: count for name, (_, count) in self.grow.items()}
            rows += add_partitions(session, wanted, dry_run=dry_run)
        if self.alter:
            changes = {
                name: {key: after for key, (_, after) in each.items()} for name, each in self.alter.items()
            }
            rows += alter_configs(session, "topics", changes, dry_run=dry_run)
        for row in rows:
            if row["error"]:
                raise UserError(f"topic {row.get('topic') or row.get('name')}: {row['error']}")


def read_topics(path: Path) -> dict[str, Wanted]:
    """The topics of a file; raises UserError with the place of a mistake."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        line = f", line {place.line + 1}" if place else ""
        raise UserError(f"{path}{line}: is no YAML: {getattr(error, 'problem', None) or error}") from None
    topics = content.get("topics") if isinstance(content, Mapping) else None
    if not isinstance(topics, Mapping):
        raise UserError(f"{path}: expected `topics:` with topics by name")
    return {str(name): _wanted(path, str(name), topic) for name, topic in topics.items()}


def _wanted(path: Path, name: str, topic: object) -> Wanted:
    if topic is None:
        topic = {}
    if not isinstance(topic, Mapping):
        raise UserError(f"{path}: {name}: expected partitions, replication_factor and configs")
    if unknown := sorted(map(str, set(topic) - _FIELDS)):
        raise UserError(f"{path}: {name}: unknown field {unknown[0]}; there are {', '.join(sorted(_FIELDS))}")
    for key in ("partitions", "replication_factor"):
        value = topic.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise UserError(f"{path}: {name}: {key}: expected a whole number above 0")
    configs = topic.get("configs")
    if configs is not None and not isinstance(configs, Mapping):
        raise UserError(f"{path}: {name}: configs: expected settings by name")
    return Wanted(
        topic.get("partitions"),
        topic.get("replication_factor"),
        None
        if configs is None
        else {str(key): setting_value(str(key), _text(value)) for key, value in configs.items()},
    )


def _text(value: object) -> str:
    """A value of YAML as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value)
