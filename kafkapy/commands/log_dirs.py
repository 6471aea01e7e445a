"""`kafkapy log-dirs`: what kafka-log-dirs.sh does, and moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkapy.commands.options import Session, connected, dry_run
from kafkapy.commands.partitions import named
from kafkapy.commands.units import size_text
from kafkapy.errors import UserError

if TYPE_CHECKING:
    from kafkapy.commands.connection.admin import Admin


@click.group("log-dirs")
def log_dirs() -> None:
    """Show the log directories of brokers, and move replicas between them (kafka-log-dirs.sh)."""


@log_dirs.command()
@click.option("--broker", "brokers", type=int, multiple=True, help="Only this broker.")
@click.option("--topic", "topics", multiple=True, help="Only this topic's replicas.")
@click.option("--partitions", is_flag=True, help="Show each replica.")
@connected
def describe(session: Session, brokers: tuple[int, ...], topics: tuple[str, ...], partitions: bool) -> None:
    """Show directories with their size, or the replicas in them."""
    found = described(session.admin, brokers, topics)
    if session.output.format != "text":
        session.output.rows(found, ())
        return
    if partitions:
        rows = [
            {
                **replica,
                "broker": each["broker"],
                "log_dir": each["log_dir"],
                "size": size_text(replica["bytes"]),
            }
            for each in found
            for replica in each["replicas"]
        ]
        session.output.rows(rows, ("broker", "log_dir", "topic", "partition", "size", "lag", "future"))
        return
    rows = [
        {
            **each,
            "replicas": len(each["replicas"]),
            "size": size_text(sum(replica["bytes"] for replica in each["replicas"])),
            "free": None if each["usable_bytes"] is None else size_text(each["usable_bytes"]),
        }
        for each in found
    ]
    session.output.rows(rows, ("broker", "log_dir", "state", "replicas", "size", "free"))


@log_dirs.command()
@click.argument("partitions", metavar="TOPIC[:0,1]...", nargs=-1, required=True)
@click.option("--broker", type=int, required=True, help="Whose replicas are moved.")
@click.option("--to", "log_dir", metavar="DIR", required=True, help="An absolute path of a log directory.")
@dry_run
@connected
def move(session: Session, partitions: tuple[str, ...], broker: int, log_dir: str, dry_run: bool) -> None:
    """Move replicas of a broker to another of its log directories."""
    from kafka.structs import TopicPartitionReplica

    from kafkapy.commands.connection.failures import failure_text

    directories = described(session.admin, (broker,), ())
    known = [each["log_dir"] for each in directories]
    if log_dir not in known:
        raise UserError(f"broker {broker} has no log directory {log_dir}; it has {', '.join(known)}")
    wanted = {
        TopicPartitionReplica(each.topic, each.partition, broker): log_dir
        for each in named(session, partitions)
    }
    if dry_run:
        places = {
            (replica["topic"], replica["partition"]): each["log_dir"]
            for each in directories
            for replica in each["replicas"]
            if not replica["future"]
        }
        session.output.rows(
            [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "before": places.get((each.topic, each.partition)),
                    "after": log_dir,
                }
                for each in sorted(wanted)
            ],
            ("topic", "partition", "before", "after"),
        )
        return
    with session.admin.calls() as client:
        found = client.alter_replica_log_dirs(wanted)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "result": "failed" if error.errno else "is moved",
            "error": failure_text(error.errno) if error.errno else None,
        }
        for each, error in sorted(found.items())
    ]
    session.results(rows, ("topic", "partition", "result"))


def described(admin: Admin, brokers: Sequence[int], topics: Sequence[str]) -> list[dict[str, Any]]:
    """The log directories of brokers, or of all, with the replicas of topics, or of all."""
    from kafka.protocol.admin import DescribeLogDirsRequest

    from kafkapy.commands.connection.failures import check, code_name

    wanted: list[tuple[str, list[int]]] | None = None
    if topics:
        numbers: dict[str, list[int]] = {}
        for each in admin.partitions(topics):
            numbers.setdefault(each.topic, []).append(each.partition)
        wanted = list(numbers.items())
    rows = []
    for broker in brokers or admin.broker_ids():
        answer = admin.send(DescribeLogDirsRequest(topics=wanted), broker)
        check(getattr(answer, "error_code", 0) or 0, None, f"broker {broker}")
        for each in answer.results:
            usable = getattr(each, "usable_bytes", None)
            rows.append(
                {
                    "broker": broker,
                    "log_dir": each.log_dir,
                    "state": code_name(each.error_code) if each.error_code else "online",
                    "usable_bytes": None if usable is None or usable < 0 else usable,
                    "replicas": [
                        {
                            "topic": topic.name,
                            "partition": replica.partition_index,
                            "bytes": replica.partition_size,
                            "lag": replica.offset_lag,
                            "future": replica.is_future_key,
                        }
                        for topic in sorted(each.topics, key=lambda topic: str(topic.name))
                        for replica in sorted(
                            topic.partitions, key=lambda replica: int(replica.partition_index)
                        )
                    ],
                }
            )
    return rows
