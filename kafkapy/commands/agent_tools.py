"""What coding agents can ask of a cluster; they read the docstrings of its tools.

Answers are bounded: agents pay for each word, and a topic may have a billion records. What was left out is
said. The cluster's password and secret settings are in no answer.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from kafkapy.commands.connection.references import has_secret
from kafkapy.commands.decoding.decoder import Decoder
from kafkapy.commands.options import Session
from kafkapy.commands.units import instant, setting_value, time_text
from kafkapy.errors import UserError

Tool = Callable[..., dict[str, Any]]

_MOST_ROWS: Final = 200
_MOST_RECORDS: Final = 100
_MOST_CHARS: Final = 20_000
"""Of one key or value."""
_ALL_CHARS: Final = 200_000
"""Of one answer."""
_DEPTH: Final = 50
"""Of a value: what is nested deeper is told as text."""
_MOST_PARTITIONS: Final = 1_000_000
_SECONDS: Final = 10.0
"""How long records are looked for."""
_DIGITS: Final = len(str(2**63))
"""Offsets and times have fewer."""
_HIDDEN: Final = "(hidden)"
_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_MOST_DESCRIBED: Final = 50
"""Of open transactions: each is a request."""


class AgentTools:
    """The tools, on one connection, which is made at the first question."""

    def __init__(self, session: Session, decoder: Decoder) -> None:
        self._session, self._decoder = session, decoder
        self._lock = threading.Lock()
        """Agents ask several things at once, and get one answer after the other."""

    def views(self) -> list[Tool]:
        """The tools that change nothing."""
        return [
            self._tool(function)
            for function in (
                self.describe_cluster,
                self.list_topics,
                self.describe_topic,
                self.read_records,
                self.list_groups,
                self.describe_group,
                self.list_transactions,
                self.describe_configs,
                self.watch_activity,
            )
        ]

    def changes(self) -> list[tuple[Tool, bool]]:
        """The tools that change something, and whether they may destroy something."""
        return [
            (self._tool(self.produce_record), False),
            (self._tool(self.create_topic), False),
            (self._tool(self.reset_offsets), True),
        ]

    def _tool(self, function: Tool) -> Tool:
        """One at a time; what the user can mend is told to the agent."""

        @functools.wraps(function)
        def run(**arguments: Any) -> dict[str, Any]:
            from mcp.server.mcpserver.exceptions import ToolError

            with self._lock:
                try:
                    answer = function(**arguments)
                except UserError as error:
                    raise ToolError(str(error)) from None
            plain: dict[str, Any] = _plain(answer)
            return plain

        return run

    def describe_cluster(self) -> dict[str, Any]:
        """Show the cluster's id, controller, brokers, log directories, partitions in trouble."""
        from kafkapy.commands.log_dirs import described as log_dirs

        admin = self._session.admin
        with admin.calls() as client:
            found = client.describe_cluster()
        behind, offline = 0, []
        for topic in admin.topics():
            for partition in topic["partitions"]:
                behind += len(partition["isr_nodes"]) < len(partition["replica_nodes"])
                if partition["leader_id"] < 0:
                    offline.append(f"{topic['name']}:{partition['partition_index']}")
        return {
            "cluster_id": found["cluster_id"],
            "controller": found["controller_id"],
            "brokers": [
                {
                    "broker": broker["broker_id"],
                    "host": broker["host"],
                    "port": broker["port"],
                    "rack": broker["rack"],
                }
                for broker in admin.brokers()
            ],
            "under_replicated_partitions": behind,
            **_bounded("partitions_without_leader", offline),
            **_bounded("log_dirs", [_log_dir(each) for each in log_dirs(admin, (), ())], "log_dirs_left_out"),
        }

    def list_topics(self, match: str = "*", internal: bool = False) -> dict[str, Any]:
        """List topics with their partitions and how many offsets they span.

        Args:
            match: a pattern of names, such as orders.*
            internal: also the topics of the brokers themselves.
        """
        from kafkapy.commands.reading import ends, starts

        topics = [
            topic
            for topic in self._session.admin.topics()
            if fnmatchcase(topic["name"], match) and (internal or not topic["is_internal"])
        ]
        shown = topics[:_MOST_ROWS]
        partitions = self._session.admin.partitions([topic["name"] for topic in shown]) if shown else []
        first, last = (find(self._session.admin, partitions) for find in (starts, ends))
        offsets: dict[str, int] = {}
        for each in partitions:
            span = last.get(each, 0) - first.get(each, 0)
            offsets[each.topic] = offsets.get(each.topic, 0) + span
        rows = [
            {
                "topic": topic["name"],
                "partitions": len(topic["partitions"]),
                "offsets": offsets.get(topic["name"], 0),
            }
            for topic in shown
        ]
        return {"topics": rows, "left_out": len(topics) - len(shown)}

    def describe_topic(self, topic: str) -> dict[str, Any]:
        """Show a topic's partitions with replicas and offsets, its settings and its groups."""
        from kafkapy.commands.group_state import committed, listed
        from kafkapy.commands.reading import ends, starts

        admin = self._session.admin
        (found,) = admin.topics([topic])
        partitions = admin.partitions([topic])
        first, last = starts(admin, partitions), ends(admin, partitions)
        by_number = {each.partition: each for each in partitions}
        rows = [
            {
                "partition": each["partition_index"],
                "leader": None if each["leader_id"] < 0 else each["leader_id"],
                "replicas": each["replica_nodes"],
                "isr": each["isr_nodes"],
                "first_offset": first.get(by_number[each["partition_index"]]),
                "end_offset": last.get(by_number[each["partition_index"]]),
            }
            for each in sorted(found["partitions"], key=lambda each: int(each["partition_index"]))
        ]
        types = {name: str(row["type"]) for name, row in listed(admin).items()}
        groups = [
            name
            for name, offsets in committed(admin, types).items()
            if any(each.topic == topic for each in offsets)
        ]
        configs = self._configs("topic", topic, own=True)
        return {
            "topic": topic,
            **_bounded("partitions", rows),
            "configs": configs,
            **_bounded("groups", sorted(groups), "groups_left_out"),
        }

    def read_records(
        self,
        topic: str,
        start: str = "latest",
        limit: int = 20,
        partition: int | None = None,
        key: str | None = None,
        where: list[str] | None = None,
        max_chars: int = 2000,
    ) -> dict[str, Any]:
        """Read records of a topic, decoded: JSON, and Avro or Protobuf by a schema registry.

        Args:
            topic: its name.
            start: latest (the last ones of each partition), earliest, an offset, or a time such as
                2026-11-29T08:00 or 2h (ago).
            limit: at most so many records, 100 at most.
            partition: only this one.
            key: only records whose key matches this regular expression.
            where: only records like this: total>100, customer.name=alice, lines[0].sku~^A, $header.trace=17
            max_chars: longer keys and values are cut.
        """
        from kafkapy.commands import reading
        from kafkapy.commands.record_filter import RecordFilter

        limit = min(max(limit, 1), _MOST_RECORDS)
        choice = RecordFilter(key, where or [], self._decoder)
        admin = self._session.admin
        partitions = [
            each for each in admin.partitions([topic]) if partition is None or each.partition == partition
        ]
        if not partitions:
            raise UserError(f"{topic} has no partition {partition}")
        if start == "latest":
            begin = reading.last_records(admin, partitions, limit if key is None and not where else 10_000)
        elif start == "earliest":
            begin = reading.starts(admin, partitions)
        elif (number := _number(start)) is not None:
            first = reading.starts(admin, partitions)
            begin = {each: max(number, first[each]) for each in partitions}
        else:
            begin = reading.since(admin, partitions, instant(start, "start"))
        ends = reading.ends(admin, partitions)
        begin = {each: offset for each, offset in begin.items() if offset < ends[each]}
        found, is_complete = self._read(begin, ends, choice, limit, newest=start == "latest")
        cut = _Cut(max(min(max_chars, _MOST_CHARS), 1))
        rows = []
        for record in found:
            rows.append(
                {
                    "partition": record.partition,
                    "offset": record.offset,
                    "time": time_text(record.timestamp),
                    "key": cut.value(self._decoder.value(record.key)),
                    "value": cut.value(self._decoder.value(record.value)),
                    **self._headers(record.headers or (), cut),
                }
            )
            if cut.total > _ALL_CHARS:
                break
        return {"topic": topic, "records": rows, "all_were_read": is_complete and len(rows) == len(found)}

    def _headers(self, headers: Sequence[tuple[str, bytes | None]], cut: _Cut) -> dict[str, Any]:
        """The headers of a record, as many as there is room for."""
        shown: dict[str, Any] = {}
        for place, (name, value) in enumerate(headers):
            if place == _MOST_ROWS or cut.total > _ALL_CHARS:
                return {"headers": shown, "headers_left_out": len(headers) - place}
            shown[cut.value(name)] = cut.value(self._decoder.value(value))
        return {"headers": shown}

    def _read(
        self, begin: dict[Any, int], ends: dict[Any, int], choice: Any, limit: int, *, newest: bool
    ) -> tuple[list[Any], bool]:
        """The first records that are chosen, or the newest; and whether all were looked at."""
        from kafkapy.commands.reading import Reader

        if not begin:
            return [], True
        found: list[Any] = []
        deadline = time.monotonic() + _SECONDS
        is_complete = True
        with Reader(self._session) as reader:
            reader.begin(begin)
            reader.end_at({each: ends[each] for each in begin})
            for records in reader.records():
                found += [record for record in records if choice.takes(record)]
                if newest:
                    found = sorted(found, key=_time)[-limit:]
                elif len(found) >= limit:
                    is_complete = False
                    break
                if time.monotonic() > deadline:
                    is_complete = False
                    break
        return sorted(found[:limit], key=_time), is_complete

    def list_groups(self, match: str = "*") -> dict[str, Any]:
        """List groups with their type, state and lag, the largest lag first.

        Args:
            match: a pattern of names.
        """
        from kafkapy.commands.group_state import lag_rows, listed

        admin = self._session.admin
        groups = {name: row for name, row in listed(admin).items() if fnmatchcase(name, match)}
        lags: dict[str, int] = dict.fromkeys(groups, 0)
        for row in lag_rows(admin, {name: str(row["type"]) for name, row in groups.items()}):
            lags[row["group"]] += row["lag"] or 0
        rows = [
            {"group": name, "type": groups[name]["type"], "state": groups[name]["state"], "lag": lag}
            for name, lag in sorted(lags.items(), key=lambda each: (-each[1], each[0]))
        ]
        return _bounded("groups", rows)

    def describe_group(self, group: str) -> dict[str, Any]:
        """Show a group's members with their partitions, and its offsets and lag by partition."""
        from kafkapy.commands.group_state import described, known, lag_rows

        admin = self._session.admin
        types = known(admin, [group])
        (found,) = described(admin, types)
        offsets = [
            {name: value for name, value in row.items() if name != "group"}
            for row in lag_rows(admin, types, [found])
        ]
        return {
            "group": group,
            "type": found.type,
            "state": found.state,
            "lag": sum(row["lag"] or 0 for row in offsets),
            **_bounded("members", [_member(member.row()) for member in found.members]),
            **_bounded("offsets", sorted(offsets, key=lambda row: -(row["lag"] or 0)), "offsets_left_out"),
        }

    def list_transactions(self, match: str = "*", open_only: bool = False) -> dict[str, Any]:
        """List transactional ids with their states; of those that are open, since when and where.

        Args:
            match: only ids like this; * is any text.
            open_only: only transactions that are open, or are being ended.
        """
        from kafkapy.commands.transactions import described, listed

        rows = [row for row in listed(self._session) if fnmatchcase(str(row["transactional_id"]), match)]
        rows.sort(key=lambda row: (row["state"] not in _OPEN, str(row["transactional_id"])))
        is_open = [row["transactional_id"] for row in rows if row["state"] in _OPEN]
        known = {row["transactional_id"]: row for row in described(self._session, is_open[:_MOST_DESCRIBED])}
        shown = [
            _member(row | known[row["transactional_id"]]) if row["transactional_id"] in known else row
            for row in rows
            if not open_only or row["state"] in _OPEN
        ]
        return _bounded("transactions", shown)

    def describe_configs(self, kind: str, name: str, all_settings: bool = False) -> dict[str, Any]:
        """Show settings; secrets are hidden.

        Args:
            kind: topic, broker or group.
            name: the topic, the broker's id or the group.
            all_settings: also those that have their default.
        """
        if kind not in ("topic", "broker", "group"):
            raise UserError(f"kind {kind}: expected topic, broker or group")
        if kind == "broker" and _number(name) is None:
            raise UserError(f"name {name}: expected the id of a broker, such as 1")
        return {"kind": kind, "name": name, "configs": self._configs(kind, name, own=not all_settings)}

    def _configs(self, kind: str, name: str, *, own: bool) -> dict[str, Any]:
        from kafka.admin import ConfigResource, ConfigResourceType

        if kind == "topic":
            self._session.admin.topics([name])
        resource = ConfigResource(ConfigResourceType[kind.upper()], name)
        with self._session.admin.calls() as client:
            found = client.describe_configs([resource], config_filter="all")
        entries = dict(found[kind]).get(name, {})
        return {
            key: _HIDDEN
            if entry.get("is_sensitive") or has_secret(key, str(entry["value"]))
            else entry["value"]
            for key, entry in sorted(entries.items())
            if not own or entry["config_source"] != "DEFAULT_CONFIG"
        }

    def watch_activity(self, seconds: float = 2.0) -> dict[str, Any]:
        """Show what happens now: the rates of topics, the lag of groups and how it grows.

        Args:
            seconds: for how long, 10 at most.
        """
        from kafkapy.commands.cluster_sample import changes, sample

        before = sample(self._session.admin)
        time.sleep(min(max(seconds, 0.1), _SECONDS))
        found = changes(before, sample(self._session.admin))
        busy = [row for row in found["topics"] if row["records_per_second"] or row["bytes_per_second"]]
        busy.sort(key=lambda row: -float(row["records_per_second"]))
        groups = sorted(found["groups"], key=lambda row: -int(row["lag"]))
        return {
            **_bounded("busy_topics", busy),
            **_bounded("groups", groups, "groups_left_out"),
            **_bounded("under_replicated", found["under_replicated"], "under_replicated_left_out"),
            "seconds": found["seconds"],
        }

    def produce_record(
        self,
        topic: str,
        value: str | None,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        partition: int | None = None,
    ) -> dict[str, Any]:
        """Write one record, of text; a value of null is a tombstone."""
        from kafkapy.commands.produce import Writer
        from kafkapy.commands.records import Message

        partitions = [each.partition for each in self._session.admin.partitions([topic])]
        if partition is not None and partition not in partitions:
            raise UserError(f"{topic} has no partition {partition}: it has {len(partitions)}")
        message = Message(
            None if value is None else value.encode(),
            None if key is None else key.encode(),
            [(name, text.encode()) for name, text in (headers or {}).items()],
            partition=partition,
        )
        with Writer(self._session) as writer:
            writer.write(topic, message)
        return {"topic": topic, "records": 1}

    def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: dict[str, str] | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Create a topic; without partitions and replication_factor it gets the brokers' defaults.

        Args:
            configs: settings such as {"retention.ms": "7d", "cleanup.policy": "compact"}.
            dry_run: let the brokers check it, and do nothing.
        """
        from kafkapy.commands.topics import create_topics

        if max(partitions or 0, replication_factor or 0) > _MOST_PARTITIONS:
            raise UserError(f"partitions and replication_factor: expected {_MOST_PARTITIONS:,} at most")
        options: dict[str, Any] = {
            "num_partitions": partitions or -1,
            "replication_factor": replication_factor or -1,
            "configs": {name: setting_value(name, str(value)) for name, value in (configs or {}).items()},
        }
        (row,) = create_topics(self._session, {topic: options}, dry_run=dry_run)
        if row["error"]:
            raise UserError(f"topic {topic}: {row['error']}")
        return dict(row)

    def reset_offsets(
        self,
        group: str,
        to: str,
        topic: str | None = None,
        partitions: list[int] | None = None,
        dry_run: bool = True,
    ) -> dict[str, Any]:
        """Set the offsets of a group that has no members.

        Look at a dry run first: it is the default.

        Args:
            group: its name.
            to: earliest, latest, an offset, +N or -N (records from where it is), or a time such as
                2026-11-29T08:00 or 2h (ago).
            topic: only this one; otherwise all that the group has offsets for.
            partitions: only these of the topic.
            dry_run: show what would change, and change nothing.
        """
        from kafkapy.commands.group_state import known, listed
        from kafkapy.commands.offset_moves import offset_moves, set_offsets

        admin = self._session.admin
        types = known(admin, [group])
        state = listed(admin)[group]["state"]
        if state not in ("Empty", "Dead", None):
            raise UserError(f"group {group} is {state}: its members must stop first")
        if partitions is not None and topic is None:
            raise UserError("partitions are given without a topic: name it")
        wanted = None
        if topic is not None:
            known_ones = admin.partitions([topic])
            wanted = [each for each in known_ones if partitions is None or each.partition in partitions]
            if partitions is not None and len(wanted) < len(set(partitions)):
                raise UserError(f"{topic} has {len(known_ones)} partitions, and not all of {partitions}")
        rows = offset_moves(admin, group, types[group], wanted, *_move(to))
        if not dry_run and rows:
            offsets = {(row["topic"], row["partition"]): row["after"] for row in rows}
            set_offsets(admin, group, types[group], offsets)
        return {"group": group, **_bounded("offsets", rows), "changed": not dry_run and bool(rows)}


class _Cut:
    """Shortens what is long, and counts what is shown."""

    def __init__(self, most: int) -> None:
        self._most, self.total = most, 0

    def value(self, value: Any) -> Any:
        """The value, or the beginning of its text."""
        text = _text(value)
        if len(text) > self._most:
            value = f"{text[: self._most]}… ({len(text):,} characters)"
        self.total += min(len(text), self._most)
        return value


def _plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON can carry it.

    Records may be nested without end, and have half of a surrogate pair.
    """
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict | list) and depth == _DEPTH:
        return _plain(_text(value))
    if isinstance(value, dict):
        return {_plain(name): _plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    return value


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else str(value)
    except (RecursionError, ValueError):  # or a number of more digits than Python writes
        return "(nested too deeply to be shown)"


def _number(text: str) -> int | None:
    """A text as a number that Kafka can have."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else None


def _bounded(name: str, rows: Iterable[Any], left_out: str = "left_out") -> dict[str, Any]:
    rows = list(rows)
    return {name: rows[:_MOST_ROWS], left_out: max(len(rows) - _MOST_ROWS, 0)}


def _log_dir(row: dict[str, Any]) -> dict[str, Any]:
    """A log directory without the names of its replicas."""
    replicas = row["replicas"]
    return row | {"replicas": len(replicas), "bytes": sum(replica["bytes"] for replica in replicas)}


def _member(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose partitions are bounded."""
    return row | _bounded("partitions", row["partitions"], "partitions_left_out")


def _move(to: str) -> tuple[str, Any]:
    """What `to` means, as `offset_moves` has it."""
    if to in ("earliest", "latest"):
        return f"to_{to}", None
    number = _number(to[1:] if to[:1] in ("+", "-") else to)
    if number is not None and to[:1] in ("+", "-"):
        return "shift_by", -number if to[0] == "-" else number
    if number is not None:
        return "to_offset", number
    return "to_time", instant(to, "to")


def _time(record: Any) -> tuple[int, int, int]:
    return record.timestamp, record.partition, record.offset
