"""`kafkapy transactions`: what kafka-transactions.sh does."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from kafkapy.commands.options import Session, confirm, connected, dry_run, yes
from kafkapy.commands.partitions import named
from kafkapy.commands.units import duration_text, milliseconds, time_text
from kafkapy.errors import UserError

_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)


@click.group()
def transactions() -> None:
    """List, describe and abort transactions (kafka-transactions.sh)."""


@transactions.command("list")
@click.option("--state", "states", type=click.Choice(_STATES, case_sensitive=False), multiple=True)
@click.option("--producer-id", "ids", type=int, multiple=True, help="Only of these producers.")
@click.option("--longer-than", metavar="DURATION", help="Only those that have been open for so long.")
@connected
def list_(session: Session, states: tuple[str, ...], ids: tuple[int, ...], longer_than: str | None) -> None:
    """List transactional ids, with their states."""
    duration = None if longer_than is None else milliseconds(longer_than, "--longer-than")
    rows = listed(session, states, ids, duration)
    columns = ("transactional_id", "coordinator", "producer_id", "state")
    session.output.rows(rows, columns, empty="there are no transactions.")


@transactions.command()
@click.argument("names", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True)
@connected
def describe(session: Session, names: tuple[str, ...]) -> None:
    """Describe transactions: their producer, how long they are open, and where."""
    rows = described(session, names)
    session.output.rows(
        rows,
        (
            "transactional_id",
            "coordinator",
            "producer_id",
            "producer_epoch",
            "state",
            "timeout_ms",
            "open_for",
            "partitions",
        ),
    )


@transactions.command("find-hanging")
@click.argument("partitions", metavar="TOPIC[:0,1]...", nargs=-1, required=True)
@click.option(
    "--max-timeout", default="15m", show_default=True, help="The brokers' transaction.max.timeout.ms."
)
@connected
def find_hanging(session: Session, partitions: tuple[str, ...], max_timeout: str) -> None:
    """Find transactions that are open in partitions, and that no coordinator will end.

    They hold up consumers that read committed records only. kafkapy transactions abort ends them.
    """
    oldest = time.time() * 1000 - milliseconds(max_timeout, "--max-timeout") - 300_000
    wanted = named(session, partitions)
    with session.admin.calls() as client:
        found = client.describe_producers(wanted)
    open_ = [
        (place, each)
        for place, state in sorted(found.items())
        for each in state.active_producers
        if each.current_transaction_start_offset >= 0 and each.last_timestamp < oldest
    ]
    known = _places_of(session, {each.producer_id for _, each in open_})
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "producer_id": each.producer_id,
            "start_offset": each.current_transaction_start_offset,
            "last_time": time_text(each.last_timestamp),
        }
        for place, each in open_
        if (each.producer_id, place) not in known
    ]
    columns = ("topic", "partition", "producer_id", "start_offset", "last_time")
    session.output.rows(rows, columns, empty="no transaction hangs.")


@transactions.command()
@click.argument("partition", metavar="TOPIC:PARTITION")
@click.option(
    "--start-offset", type=click.IntRange(min=0), required=True, help="Where the transaction begins."
)
@dry_run
@yes
@connected
def abort(session: Session, partition: str, start_offset: int, dry_run: bool, yes: bool) -> None:
    """Abort the transaction that begins at an offset of a partition.

    For transactions that hang: others are ended by their producers, or by their coordinator.
    """
    from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

    from kafkapy.commands.connection.failures import check

    if ":" not in partition or "," in partition:
        raise UserError(f"{partition}: expected TOPIC:PARTITION")
    (place,) = named(session, [partition])
    with session.admin.calls() as client:
        producers = client.describe_producers([place])[place].active_producers
        leader = next(iter(client._manager.run(client._async_get_leader_for_partitions, [place])))
    matching = [each for each in producers if each.current_transaction_start_offset == start_offset]
    if not matching:
        raise UserError(
            f"{partition} has no open transaction at offset {start_offset}; see kafkapy producers"
        )
    (producer,) = matching
    row = {"topic": place.topic, "partition": place.partition, "producer_id": producer.producer_id}
    columns = ("topic", "partition", "producer_id", "result")
    if dry_run:
        session.output.rows([{**row, "result": "would be aborted"}], columns)
        return
    confirm(f"Abort the transaction of producer {producer.producer_id} in {partition}?", sure=yes)
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=False,
                topics=[marker.WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
                coordinator_epoch=max(producer.coordinator_epoch, 0),
            )
        ]
    )
    for result in session.admin.send(request, leader).markers:
        for topic in result.topics:
            for each in topic.partitions:
                check(each.error_code, None, partition)
    session.output.rows([{**row, "result": "aborted"}], columns)


def listed(
    session: Session, states: Sequence[str] = (), ids: Sequence[int] = (), duration_ms: int | None = None
) -> list[dict[str, Any]]:
    """Rows of transactional ids, of these states and producers, and open for so long."""
    with session.admin.calls() as client:
        found = client.list_transactions(
            broker_ids=session.admin.broker_ids(),
            state_filters=list(states) or None,
            producer_id_filters=list(ids) or None,
            duration_filter_ms=duration_ms,
        )
    return [
        {
            "transactional_id": each.transactional_id,
            "coordinator": broker,
            "producer_id": each.producer_id,
            "state": each.state.value,
        }
        for broker, known in sorted(found.items())
        for each in known
    ]


def described(session: Session, names: Iterable[str]) -> list[dict[str, Any]]:
    """Rows of transactional ids, with how long their transactions are open, and where."""
    found: dict[str, Any] = {}
    for name in names:
        with session.admin.calls() as client:
            found |= client.describe_transactions([name])
    return [_described(name, each) for name, each in found.items()]


def _described(name: str, each: Any) -> dict[str, Any]:
    began = each.transaction_start_time_ms
    return {
        "transactional_id": name,
        "coordinator": each.coordinator_id,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.state.value,
        "timeout_ms": each.transaction_timeout_ms,
        "started": time_text(began),
        "open_for": None if began <= 0 else duration_text(time.time() - began / 1000),
        "partitions": [f"{place.topic}:{place.partition}" for place in sorted(each.topic_partitions)],
    }


def _places_of(session: Session, producers: set[int]) -> set[tuple[int, Any]]:
    """Producers, and the partitions of their transactions that coordinators know."""
    if not producers:
        return set()
    with session.admin.calls() as client:
        listed = client.list_transactions(
            broker_ids=session.admin.broker_ids(), producer_id_filters=sorted(producers)
        )
        names = [each.transactional_id for found in listed.values() for each in found]
        described = client.describe_transactions(names) if names else {}
    return {(each.producer_id, place) for each in described.values() for place in each.topic_partitions}
