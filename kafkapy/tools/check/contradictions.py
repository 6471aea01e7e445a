"""Contradictions between directories: ids of owners, copies of logs, topic ids.

The owners are in each meta.properties and in metadata.db, which a broker has once, in any of its directories.
If a check finds none or several, it cannot know which directories belong together, and compares each
metadata.db only with its own directory. If a few characters of a generated id are wrong, the id is damaged:
the start takes the other id and writes the file again (storage/disk/log_directory.py).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.disk.checkpoints import META_PROPERTIES, MetaProperties
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.log_directory import is_damaged_id
from kafkapy.tools.check.finding import Finding, Severity
from kafkapy.tools.check.partition_check import PartitionResult

_REPAIRED = "The next start writes it again, with the other id."
_DAMAGED = (
    "kafkapy does not start with both: correct the file that is wrong, or name directories of one broker."
)


def compare_owners(metas: Mapping[str, MetaProperties], clusters: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each contradiction.

    Args:
        metas: the ids in the meta.properties of each directory, if the file can be read.
        clusters: the cluster id in each metadata.db, by its directory.
    """
    for home, cluster_id in clusters.items():
        own = metas.get(home, MetaProperties())
        for path in metas if len(clusters) == 1 else [home]:
            meta = metas.get(path, own)
            yield from _contradiction(path, "cluster", meta.cluster_id, f"{home}/{METADATA_FILE}", cluster_id)
            yield from _contradiction(path, "broker", meta.node_id, f"{home}/{META_PROPERTIES}", own.node_id)


def _contradiction(
    path: str, what: str, own: str | int | None, other: str, others: str | int | None
) -> Iterator[Finding]:
    if own is None or others is None or own == others:
        return
    repaired = is_damaged_id(own, others)
    severity, remedy = (Severity.REPAIRED, _REPAIRED) if repaired else (Severity.DAMAGED, _DAMAGED)
    said = f"it names the {what} {own}, and {other} the {what} {others}"
    yield Finding(severity, f"{path}/{META_PROPERTIES}", said, remedy)


def compare_partitions(results: Iterable[PartitionResult]) -> Iterator[Finding]:
    """Yield a finding for each log that is there twice, and each strange topic id."""
    places: dict[TopicPartition, PartitionResult] = {}
    ids: dict[str, dict[Uuid, list[PartitionResult]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        other = places.setdefault(result.topic_partition, result)
        if other is not result:
            severity = Severity.DAMAGED
            remedy = "No broker starts with both: remove the one that is out of date."
            if result.replaces is not other.replaces:
                severity = Severity.REPAIRED
                remedy = "One was about to replace the other: the next start keeps the one with all records."
            what = f"{result.topic_partition} is in {os.path.dirname(other.path)} too"
            yield Finding(severity, result.path, what, remedy)
        if result.topic_id is not None:
            ids[result.topic_partition.topic][result.topic_id].append(result)
    for groups in ids.values():
        for strange in sorted(groups.values(), key=len)[:-1]:
            for result in strange:
                what = "its topic id is not that of the topic's other partitions"
                remedy = "The next start takes the id from the metadata and removes deleted topics."
                yield Finding(Severity.REPAIRED, result.path, what, remedy)
