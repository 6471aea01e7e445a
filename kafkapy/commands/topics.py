"""`kafkapy topics`: what kafka-topics.sh and kafka-delete-records.sh do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from kafkapy.commands.options import Session, confirm, connected, dry_run, settings, yes
from kafkapy.commands.output import cell
from kafkapy.commands.units import instant, setting_value
from kafkapy.errors import UserError

_PARTITION_COLUMNS: Final = ("topic", "partition", "leader", "replicas", "isr", "offline", "leader_epoch")


@click.group()
def topics() -> None:
    """List, describe, create, change and delete topics (kafka-topics.sh)."""


@topics.command("list")
@click.option("--exclude-internal", is_flag=True, help="Leave the topics of the brokers out.")
@connected
def list_(session: Session, exclude_internal: bool) -> None:
    """List topics."""
    rows = [
        {
            "topic": topic["name"],
            "partitions": len(topic["partitions"]),
            "replication_factor": _replication_factor(topic),
            "internal": topic["is_internal"],
        }
        for topic in session.admin.topics()
        if not (exclude_internal and topic["is_internal"])
    ]
    session.output.rows(rows, ("topic", "partitions", "replication_factor"), empty="there are no topics.")


@topics.command()
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@click.option("--under-replicated-partitions", "under_replicated", is_flag=True, help="Only those.")
@click.option("--unavailable-partitions", "unavailable", is_flag=True, help="Only those without a leader.")
@click.option("--under-min-isr-partitions", "under_min_isr", is_flag=True, help="Only those.")
@click.option("--at-min-isr-partitions", "at_min_isr", is_flag=True, help="Only those.")
@click.option("--topics-with-overrides", "overridden", is_flag=True, help="Only topics with settings.")
@connected
def describe(
    session: Session,
    names: tuple[str, ...],
    under_replicated: bool,
    unavailable: bool,
    under_min_isr: bool,
    at_min_isr: bool,
    overridden: bool,
) -> None:
    """Describe partitions and settings of topics, or of all."""
    found = session.admin.topics(names or None)
    configs = _configs(session, [topic["name"] for topic in found])
    filtered = under_replicated or unavailable or under_min_isr or at_min_isr
    documents, rows = [], []
    for topic in found:
        name = topic["name"]
        min_isr = int(configs[name].get("min.insync.replicas", {}).get("value") or 1)
        partitions = [
            partition
            for partition in map(_partition, sorted(topic["partitions"], key=_index))
            if not filtered
            or (under_replicated and len(partition["isr"]) < len(partition["replicas"]))
            or (unavailable and partition["leader"] is None)
            or (under_min_isr and len(partition["isr"]) < min_isr)
            or (at_min_isr and len(partition["isr"]) == min_isr)
        ]
        set_ = {key: entry["value"] for key, entry in configs[name].items() if _is_set(entry)}
        if (filtered and not partitions) or (overridden and not set_):
            continue
        documents.append(
            {
                "topic": name,
                "topic_id": topic.get("topic_id"),
                "replication_factor": _replication_factor(topic),
                "configs": set_,
                "partitions": partitions,
            }
        )
        rows += [{"topic": name, **partition} for partition in partitions]
    if session.output.format != "text":
        session.output.rows(documents, ())
        return
    for document in [] if filtered else documents:
        click.echo(
            f"Topic: {document['topic']}  TopicId: {document['topic_id']}  "
            f"PartitionCount: {len(document['partitions'])}  "
            f"ReplicationFactor: {document['replication_factor']}  Configs: {cell(document['configs'])}"
        )
    if not overridden:
        session.output.rows(rows, _PARTITION_COLUMNS, empty="no partition is like this.")


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--partitions", "-p", type=click.IntRange(min=1), help="How many; else the brokers' default.")
@click.option("--replication-factor", "-r", type=click.IntRange(min=1), help="Else the brokers' default.")
@click.option("--replica-assignment", metavar="1:2,2:3", help="The brokers of each partition.")
@click.option("--config", "-c", "configs", metavar="KEY=VALUE", multiple=True, help="A setting; 1d, 64MiB.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing for a topic that exists.")
@dry_run
@connected
def create(
    session: Session,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics.

    Settings take durations (500ms, 12h, 7d) and sizes (64MiB): -c retention.ms=1d.
    """
    options: dict[str, Any] = {
        "num_partitions": partitions or -1,
        "replication_factor": replication_factor or -1,
        "configs": {key: setting_value(key, value) for key, value in settings(configs, "--config").items()},
    }
    if replica_assignment is not None:
        if partitions or replication_factor:
            raise UserError("--replica-assignment says how many: leave out --partitions and the factor")
        options["assignments"] = _assignments(replica_assignment)
    rows = create_topics(session, dict.fromkeys(names, options), dry_run=dry_run)
    if if_not_exists:
        for row in rows:
            if str(row["error"]).startswith("TOPIC_ALREADY_EXISTS"):
                row |= {"result": "exists", "error": None}
    session.results(rows, ("topic", "result"))


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--partitions", "-p", type=click.IntRange(min=1), required=True, help="How many then.")
@dry_run
@connected
def alter(session: Session, names: tuple[str, ...], partitions: int, dry_run: bool) -> None:
    """Add partitions to topics; kafkapy configs alter changes their settings.

    Records with keys go to other partitions from then on.
    """
    rows = add_partitions(session, dict.fromkeys(names, partitions), dry_run=dry_run)
    session.results(rows, ("topic", "result"))


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Do nothing for a topic that does not exist.")
@dry_run
@yes
@connected
def delete(session: Session, names: tuple[str, ...], if_exists: bool, dry_run: bool, yes: bool) -> None:
    """Delete topics with all their records."""
    from kafkapy.commands.connection.failures import failure_text

    if if_exists:
        existing = {topic["name"] for topic in session.admin.topics()}
        names = tuple(name for name in names if name in existing)
    else:
        session.admin.topics(names)
    if dry_run:
        session.results(
            [{"topic": name, "result": "would be deleted"} for name in names], ("topic", "result")
        )
        return
    rows = []
    if names:
        confirm(f"Delete {', '.join(names)} with all records?", sure=yes)
        with session.admin.calls() as client:
            answer = client.delete_topics(list(names), raise_errors=False)
        for topic in sorted(answer["topics"], key=lambda topic: str(topic["name"])):
            code = topic["error_code"]
            error = failure_text(code, topic.get("error_message")) if code else None
            result = "failed" if code else "deleted"
            rows.append({"topic": topic["name"], "result": result, "error": error})
    session.results(rows, ("topic", "result"))


@topics.command("delete-records")
@click.argument("offsets", metavar="TOPIC:PARTITION=OFFSET...", nargs=-1, required=True)
@dry_run
@yes
@connected
def delete_records(session: Session, offsets: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete the records before an offset; -1 deletes all (kafka-delete-records.sh)."""
    from kafka.structs import TopicPartition

    wanted = {}
    for text in offsets:
        found = re.fullmatch(r"([\w.-]+):(\d+)=(-1|\d+)", text)
        if found is None:
            raise UserError(f"{text}: expected TOPIC:PARTITION=OFFSET")
        wanted[TopicPartition(found[1], int(found[2]))] = int(found[3])
    session.admin.topics(sorted({partition.topic for partition in wanted}))
    if dry_run:
        session.results(_what_is_deleted(session, wanted), ("topic", "partition", "before", "low_watermark"))
        return
    confirm(f"Delete the records before {', '.join(offsets)}?", sure=yes)
    with session.admin.calls() as client:
        answer = client.delete_records(wanted, timeout_ms=session.admin.timeout_ms)
    rows = [
        {"topic": each.topic, "partition": each.partition, "low_watermark": result["low_watermark"]}
        for each, result in sorted(answer.items())
    ]
    session.output.rows(rows, ("topic", "partition", "low_watermark"))


def _what_is_deleted(session: Session, wanted: Mapping[Any, int]) -> list[dict[str, Any]]:
    """Where partitions begin, and where they would begin then."""
    from kafkapy.commands.partitions import named
    from kafkapy.commands.reading import ends, starts

    partitions = named(session, [f"{each.topic}:{each.partition}" for each in wanted])
    first, last = starts(session.admin, partitions), ends(session.admin, partitions)
    rows = []
    for each in sorted(partitions):
        offset = last[each] if wanted[each] < 0 else wanted[each]
        beyond = f"OFFSET_OUT_OF_RANGE: the records end at {last[each]}" if offset > last[each] else None
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "before": first[each],
                "low_watermark": None if beyond else max(offset, first[each]),
                "error": beyond,
            }
        )
    return rows


@topics.command()
@click.argument("names", metavar="TOPIC[:0,1]...", nargs=-1, required=True)
@click.option("--at", metavar="TIME", help="Also the first offset from then on: 2026-11-29T08:00, or 2h ago.")
@connected
def offsets(session: Session, names: tuple[str, ...], at: str | None) -> None:
    """Show where partitions begin and end (kafka-get-offsets.sh)."""
    from kafkapy.commands.partitions import named
    from kafkapy.commands.reading import ends, since, starts

    partitions = named(session, names)
    first, last = starts(session.admin, partitions), ends(session.admin, partitions)
    then = {} if at is None else since(session.admin, partitions, instant(at, "--at"))
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "earliest": first[each],
            "latest": last[each],
            "records_at_most": last[each] - first[each],
            "at": then.get(each),
        }
        for each in partitions
    ]
    columns = ("topic", "partition", "earliest", "latest")
    session.output.rows(rows, columns if at is None else (*columns, "at"))


@topics.command()
@click.option("--file", "-f", "path", required=True, type=click.Path(path_type=Path), help="A YAML file.")
@dry_run
@yes
@connected
def apply(session: Session, path: Path, dry_run: bool, yes: bool) -> None:
    """Make topics as a file describes them: say what changes, then do it.

    \b
    topics:
      orders:
        partitions: 6
        replication_factor: 3
        configs: {retention.ms: 7d}

    Topics that the file does not name stay as they are, and so do settings without a `configs`. With it, a
    setting of the topic that it does not name is removed.
    """
    from kafkapy.commands.topics_file import Plan

    plan = Plan.of(path, session)
    rows = plan.rows()
    session.output.rows(rows, ("topic", "change", "before", "after"), empty="nothing is to be changed.")
    if not rows:
        return
    plan.check(session)
    if not dry_run:
        if plan.removes:
            confirm("Remove these settings?", sure=yes)
        plan.carry_out(session)
        session.output.note("done.")


def create_topics(
    session: Session, wanted: Mapping[str, Mapping[str, Any]], *, dry_run: bool
) -> list[dict[str, Any]]:
    """Create topics with kafka-python's options; a row for each says what became of it."""
    from kafkapy.commands.connection.failures import failure_text

    with session.admin.calls() as client:
        answer = client.create_topics(dict(wanted), validate_only=dry_run, raise_errors=False)
    return [
        {
            "topic": topic["name"],
            "result": "failed" if topic["error_code"] else "would be created" if dry_run else "created",
            "partitions": topic.get("num_partitions"),
            "replication_factor": topic.get("replication_factor"),
            "error": failure_text(topic["error_code"], topic.get("error_message"))
            if topic["error_code"]
            else None,
        }
        for topic in answer["topics"]
    ]


def add_partitions(session: Session, wanted: Mapping[str, int], *, dry_run: bool) -> list[dict[str, Any]]:
    """Raise topics to so many partitions; a row for each says what became of it."""
    from kafkapy.commands.connection.failures import failure_text

    with session.admin.calls() as client:
        answer = client.create_partitions(dict(wanted), validate_only=dry_run, raise_errors=False)
    return [
        {
            "topic": topic.name,
            "result": "failed" if topic.error_code else "would be altered" if dry_run else "altered",
            "error": failure_text(topic.error_code, topic.error_message) if topic.error_code else None,
        }
        for topic in answer.results
    ]


def _configs(session: Session, names: list[str]) -> dict[str, dict[str, Any]]:
    from kafka.admin import ConfigResource, ConfigResourceType

    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    with session.admin.calls() as client:
        found = client.describe_configs(resources, config_filter="all")
    configs: dict[str, dict[str, Any]] = found["topic"]
    return configs


def _is_set(entry: Mapping[str, Any]) -> bool:
    return bool(entry["config_source"] == "DYNAMIC_TOPIC_CONFIG")


def _index(partition: Mapping[str, Any]) -> int:
    return int(partition["partition_index"])


def _partition(partition: Mapping[str, Any]) -> dict[str, Any]:
    leader = partition["leader_id"]
    return {
        "partition": partition["partition_index"],
        "leader": None if leader < 0 else leader,
        "replicas": partition["replica_nodes"],
        "isr": partition["isr_nodes"],
        "offline": partition.get("offline_replicas", []),
        "leader_epoch": partition.get("leader_epoch"),
    }


def _replication_factor(topic: Mapping[str, Any]) -> int:
    return max((len(partition["replica_nodes"]) for partition in topic["partitions"]), default=0)


def _assignments(text: str) -> dict[int, list[int]]:
    if not re.fullmatch(r"\d+(:\d+)*(,\d+(:\d+)*)*", text):
        raise UserError(f"--replica-assignment {text}: expected brokers such as 1:2,2:3,3:1")
    return {
        partition: [int(broker) for broker in brokers.split(":")]
        for partition, brokers in enumerate(text.split(","))
    }
