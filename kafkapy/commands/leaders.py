"""`kafkapy leaders`: what kafka-leader-election.sh does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kafkapy.commands.options import Session, confirm, connected, dry_run, yes
from kafkapy.commands.partitions import named
from kafkapy.errors import UserError

_COLUMNS = ("topic", "partition", "result", "leader")


@click.group()
def leaders() -> None:
    """Elect leaders of partitions (kafka-leader-election.sh)."""


@leaders.command()
@click.argument("partitions", metavar="[TOPIC[:0,1]]...", nargs=-1)
@click.option("--all-topic-partitions", "everywhere", is_flag=True, help="Instead of naming them.")
@click.option(
    "--election-type",
    type=click.Choice(["preferred", "unclean"]),
    default="preferred",
    show_default=True,
    help="unclean: take any replica if none is in sync; records may be lost.",
)
@dry_run
@yes
@connected
def elect(
    session: Session,
    partitions: tuple[str, ...],
    everywhere: bool,
    election_type: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Make the preferred replica the leader.

    With --election-type unclean, any replica of a partition without a leader.
    """
    from kafka.protocol.admin import ElectLeadersRequest

    from kafkapy.commands.connection.failures import check, failure_text
    from kafkapy.protocol.errors import ErrorCode

    if bool(partitions) == everywhere:
        raise UserError("name partitions, such as orders or orders:0,1, or give --all-topic-partitions")
    unclean = election_type == "unclean"
    wanted: dict[str, list[int]] = {}
    for each in session.admin.partitions() if everywhere else named(session, partitions):
        wanted.setdefault(each.topic, []).append(each.partition)
    if dry_run:
        session.results(_foreseen(session, wanted, unclean=unclean), _COLUMNS)
        return
    if unclean:
        confirm("Elect leaders that may lack records, which are lost then?", sure=yes)
    request = ElectLeadersRequest(
        election_type=1 if unclean else 0,
        topic_partitions=list(wanted.items()),
        timeout_ms=session.admin.timeout_ms,
    )
    answer = session.admin.to_controller(request)
    check(answer.error_code, None, "leaders")
    current = {
        (topic["name"], partition["partition_index"]): partition["leader_id"]
        for topic in session.admin.topics(list(wanted))
        for partition in topic["partitions"]
    }
    rows = []
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            code = result.error_code
            needless = code == ErrorCode.ELECTION_NOT_NEEDED
            failed = code and not needless
            rows.append(
                {
                    "topic": topic.topic,
                    "partition": result.partition_id,
                    "result": "failed" if failed else "not needed" if needless else "elected",
                    "leader": current.get((topic.topic, result.partition_id)),
                    "error": failure_text(code, result.error_message) if failed else None,
                }
            )
    session.results(sorted(rows, key=lambda row: (row["topic"], row["partition"])), _COLUMNS)


def _foreseen(session: Session, wanted: Mapping[str, list[int]], *, unclean: bool) -> list[dict[str, Any]]:
    """What an election would do, as the metadata are now."""
    rows = []
    for topic in session.admin.topics(list(wanted)):
        for each in topic["partitions"]:
            if each["partition_index"] not in wanted[topic["name"]]:
                continue
            leader, replicas = each["leader_id"], each["replica_nodes"]
            lacks = leader is None or leader < 0
            error = None
            if not (lacks if unclean else leader != replicas[0]):
                result = "not needed"
            elif unclean or replicas[0] in each["isr_nodes"]:
                result = "would be elected"
            else:
                result, error = "failed", f"the preferred replica {replicas[0]} is not in sync"
            rows.append(
                {
                    "topic": topic["name"],
                    "partition": each["partition_index"],
                    "result": result,
                    "leader": None if lacks else leader,
                    "error": error,
                }
            )
    return sorted(rows, key=lambda row: (row["topic"], row["partition"]))
