"""What a cluster is at one moment, and how fast it changes between two.

Records are counted by the ends of partitions, bytes by the logs of their leaders. So the rates are those of
what was appended, by any client, and bytes are as they are on disk. Compaction and retention make logs
smaller: a topic has no negative rate.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkapy.commands.connection.admin import Admin
from kafkapy.commands.group_state import lag_rows, listed
from kafkapy.commands.log_dirs import described
from kafkapy.commands.reading import ends
from kafkapy.errors import UserError

Place = tuple[str, int]
Row = dict[str, Any]


@dataclass
class ClusterSample:
    """A cluster at one moment.

    `sizes` is None if the cluster does not tell them, which needs a right of its own.
    """

    at: float
    brokers: list[Row]
    leaders: dict[Place, int | None]
    ends: dict[Place, int]
    sizes: dict[Place, int] | None
    groups: dict[str, Row]
    under_replicated: list[Row] = field(default_factory=list)
    offline: int = 0


def sample(admin: Admin) -> ClusterSample:
    """Look at a cluster."""
    brokers, topics = admin.brokers(), admin.topics()
    leaders: dict[Place, int | None] = {}
    behind, offline = [], 0
    for topic in topics:
        for partition in topic["partitions"]:
            place = (topic["name"], partition["partition_index"])
            leaders[place] = None if partition["leader_id"] < 0 else partition["leader_id"]
            offline += leaders[place] is None
            if missing := sorted(set(partition["replica_nodes"]) - set(partition["isr_nodes"])):
                row = {"topic": place[0], "partition": place[1], "leader": leaders[place]}
                behind.append({**row, "isr": sorted(partition["isr_nodes"]), "missing": missing})
    groups = listed(admin)
    for row in groups.values():
        row["lag"] = 0
    for each in lag_rows(admin, {name: str(row["type"]) for name, row in groups.items()}):
        groups[each["group"]]["lag"] += each["lag"] or 0
    from kafka.structs import TopicPartition

    # The rates are those of the time between two looks at the ends.
    at = time.monotonic()
    led = [TopicPartition(*place) for place, leader in leaders.items() if leader is not None]
    last = {(each.topic, each.partition): end for each, end in ends(admin, led).items()}
    behind.sort(key=lambda row: (row["topic"], row["partition"]))
    return ClusterSample(at, brokers, leaders, last, _sizes(admin, leaders), groups, behind, offline)


def _sizes(admin: Admin, leaders: Mapping[Place, int | None]) -> dict[Place, int] | None:
    try:
        directories = described(admin, (), ())
    except UserError:
        return None
    sizes: dict[Place, int] = {}
    for directory in directories:
        for replica in directory["replicas"]:
            place = (replica["topic"], replica["partition"])
            if leaders.get(place) == directory["broker"] and not replica["future"]:
                sizes[place] = replica["bytes"]
    return sizes


def changes(before: ClusterSample, after: ClusterSample) -> dict[str, Any]:
    """Topics, groups and brokers as they are now, with what became of them in a second."""
    seconds = max(after.at - before.at, 1e-3)
    topics, brokers = _sums(), _sums()
    for place, leader in after.leaders.items():
        topic = topics[place[0]]
        # What has no value before is new: all of it was written since.
        records = max(after.ends.get(place, 0) - before.ends.get(place, 0), 0)
        size = (after.sizes or {}).get(place, 0)
        grown = max(size - (before.sizes or {}).get(place, 0), 0)
        for row in (topic, *([brokers[leader]] if leader is not None else ())):
            row["partitions"] += 1
            row["records_per_second"] += records / seconds
            row["bytes"] += size
            row["bytes_per_second"] += grown / seconds
    known = after.sizes is not None and before.sizes is not None
    return {
        "topics": [{"topic": name, **_rounded(row, known)} for name, row in topics.items()],
        "groups": [
            {
                "group": name,
                "type": row["type"],
                "state": row["state"],
                "lag": row["lag"],
                "lag_per_second": round((row["lag"] - before.groups.get(name, row)["lag"]) / seconds, 1),
            }
            for name, row in after.groups.items()
        ],
        "brokers": [
            {
                "broker": broker["broker_id"],
                "host": f"{broker['host']}:{broker['port']}",
                "leads": brokers[broker["broker_id"]]["partitions"],
                **{
                    name: value
                    for name, value in _rounded(brokers[broker["broker_id"]], known).items()
                    if name != "partitions"
                },
            }
            for broker in after.brokers
        ],
        "under_replicated": after.under_replicated,
        "offline": after.offline,
        "seconds": round(seconds, 2),
    }


def _sums() -> defaultdict[Any, dict[str, float]]:
    return defaultdict(
        lambda: {"partitions": 0, "records_per_second": 0.0, "bytes": 0, "bytes_per_second": 0.0}
    )


def _rounded(row: Mapping[str, float], has_sizes: bool) -> Row:
    return {
        "partitions": int(row["partitions"]),
        "records_per_second": round(row["records_per_second"], 1),
        "bytes": int(row["bytes"]) if has_sizes else None,
        "bytes_per_second": round(row["bytes_per_second"], 1) if has_sizes else None,
    }
