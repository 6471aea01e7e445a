"""Adopts logs in the data directories as topics of a new metadata tree.

The logs of Apache Kafka, or of a broker whose metadata.db was lost, have no topics. If the tree is new,
topics are created for them, with the ids in partition.metadata, and with leader epochs above those of the
records. Otherwise the first client to ask for such a topic would create another one of that name, which would
replace the log.

Their settings are not known (`kafkapy import` takes settings along). Logs that were compacted get
cleanup.policy=compact, all others get no retention, and internal topics have their own settings.

New producer ids are above those in the logs: if an id were assigned again, records of the new producer would
count as duplicates.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from kafkapy.configs.topics import guessed_settings
from kafkapy.controller.topic_plans import TopicPlanner
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.topic_names import is_internal
from kafkapy.protocol.types import TopicPartition, Uuid, random_uuid
from kafkapy.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class FoundLog(NamedTuple):
    """A log that was found in a data directory.

    It has the topic's id if there is one, the leader epoch of the last records or -1, the highest producer id
    or -1, and whether the log was ever compacted.
    """

    topic_id: Uuid | None
    leader_epoch: int
    highest_producer_id: int = -1
    compacted: bool = False


def found_logs(logs: Mapping[TopicPartition, PartitionLog]) -> dict[TopicPartition, FoundLog]:
    """The known facts about the logs that were in the directories before the metadata was read."""
    return {
        topic_partition: FoundLog(
            log.topic_id,
            max((epoch for epoch, _ in log.leader_epochs.entries), default=-1),
            max((producer_id for producer_id, _ in log.producers), default=-1),
            log.cleaned_offset is not None,
        )
        for topic_partition, log in logs.items()
    }


def adopt_logs(
    found: Mapping[TopicPartition, FoundLog], node_id: int, planner: TopicPlanner, image: MetadataImage
) -> list[Topic]:
    """The topics for the logs that were found."""
    by_topic: dict[str, dict[int, FoundLog]] = {}
    for topic_partition, log in found.items():
        by_topic.setdefault(topic_partition.topic, {})[topic_partition.partition] = log
    topics = []
    for name, partitions in by_topic.items():
        ids = {log.topic_id for log in partitions.values() if log.topic_id is not None}
        if len(ids) > 1 or sorted(partitions) != list(range(len(partitions))):
            logger.warning(
                "The logs of %s in the data directories are not those of one complete topic and"
                " are not adopted.",
                name,
            )
            continue
        if is_internal(name):
            known = planner.automatic(name, image).configs
            configs = {key: value for key, value in known.items() if value is not None}
        else:
            configs = guessed_settings(compacted=any(log.compacted for log in partitions.values()))
        epochs = [partitions[index].leader_epoch + 1 for index in range(len(partitions))]
        topics.append(
            Topic(
                name,
                ids.pop() if ids else random_uuid(),
                tuple(PartitionState(node_id, epoch, (node_id,), (node_id,)) for epoch in epochs),
                configs,
            )
        )
    if topics:
        logger.warning(
            "Adopted %d topics from the logs in the data directories. Their settings are not known: until"
            " you set them nothing is deleted (retention.ms=-1, or cleanup.policy=compact where a log was"
            " compacted). `kafkapy import` takes the settings of Apache Kafka along.",
            len(topics),
        )
    return topics
