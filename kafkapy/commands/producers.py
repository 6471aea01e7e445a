"""`kafkapy producers`: what kafka-transactions.sh describe-producers does."""

from __future__ import annotations

import click

from kafkapy.commands.options import Session, connected
from kafkapy.commands.partitions import named
from kafkapy.commands.units import time_text

_COLUMNS = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_time",
    "transaction_start",
)


@click.command()
@click.argument("partitions", metavar="TOPIC[:0,1]...", nargs=-1, required=True)
@connected
def producers(session: Session, partitions: tuple[str, ...]) -> None:
    """Show the idempotent and transactional producers of partitions.

    `transaction start` is the first offset of a transaction that is open there.
    """
    wanted = named(session, partitions)
    with session.admin.calls() as client:
        found = client.describe_producers(wanted)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_sequence": each.last_sequence,
            "last_time": time_text(each.last_timestamp),
            "transaction_start": None
            if each.current_transaction_start_offset < 0
            else each.current_transaction_start_offset,
        }
        for place, state in sorted(found.items())
        for each in state.active_producers
    ]
    session.output.rows(rows, _COLUMNS, empty="there are no producers.")
