"""The cluster: its brokers, their log directories, and what is wrong with replicas."""

from __future__ import annotations

from typing import Any, Final

from kafkapy.commands.connection.failures import code_name
from kafkapy.errors import UserError
from kafkapy.page.call import Answer, Call

_MOST_TROUBLED: Final = 100


def view(call: Call) -> Answer:
    metadata = call.sources.topics.metadata()
    leaders, replicas = dict[int, int](), dict[int, int]()
    troubled = []
    for topic in metadata.topics.values():
        for partition in topic.partitions:
            leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
            for replica in partition.replicas:
                replicas[replica] = replicas.get(replica, 0) + 1
            if partition.leader < 0 or partition.offline or len(partition.isr) < len(partition.replicas):
                troubled.append((topic.name, partition))
    return Answer(
        "cluster.html",
        {
            "title": "Cluster",
            "metadata": metadata,
            "brokers": [
                {
                    "broker": broker,
                    "leaders": leaders.get(broker.id, 0),
                    "replicas": replicas.get(broker.id, 0),
                    "directories": _directories(call, broker.id),
                }
                for broker in metadata.brokers
            ],
            "troubled": troubled[:_MOST_TROUBLED],
            "troubled_count": len(troubled),
        },
    )


def _directories(call: Call, broker: int) -> list[dict[str, Any]]:
    try:
        found = call.sources.topics.log_dirs(broker, [])
    except UserError as error:
        return [{"path": str(error), "state": "not known", "total": None, "usable": None}]
    return [
        {
            "path": each.log_dir,
            "state": code_name(each.error_code) if each.error_code else "online",
            "total": each.total_bytes if each.total_bytes >= 0 else None,
            "usable": each.usable_bytes if each.usable_bytes >= 0 else None,
        }
        for each in found or ()
    ]
