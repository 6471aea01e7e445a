"""Topics for logs that a new metadata tree finds in the data directories.

A directory written by Apache Kafka, or by a broker whose metadata.db was lost, holds logs that nobody knows.
When the tree is new, they become topics again. Their ids are those of their partition.metadata, and their
leader epochs come after those of their records. Otherwise the first client to ask for such a topic would
create another one of that name, and the old log would have to go.

Their settings cannot be known (`kafkapy import` takes settings along). What was compacted is compacted; of
the rest nothing is deleted; internal topics have their own settings.

Producer ids begin after those that the logs know: an id that is given out again makes duplicates of a new
producer's records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from kafkapy.configs.topics import guessed_settings
from kafkapy.controller.topic_plans import TopicPlanner
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.metadata.topic_names import is_internal
from kafkapy.protocol.types import TopicPartition, Uuid, random_uuid

logger = logging.getLogger(__name__)


class FoundLog(NamedTuple):
    """A log that was found in a data directory.

    What is known of it: its topic's id where it has one, the epoch of its last records or -1, the highest
    producer id that it knows or -1, and whether it was ever compacted.
    """

    topic_id: Uuid | None
    leader_epoch: int
    highest_producer_id: int = -1
    compacted: bool = False


def adopt_logs(
    found: Mapping[TopicPartition, FoundLog], node_id: int, planner: TopicPlanner, image: MetadataImage
) -> list[Topic]:
    """The topics of the logs that were found."""
    by_topic: dict[str, dict[int, FoundLog]] = {}
    for topic_partition, log in found.items():
        by_topic.setdefault(topic_partition.topic, {})[topic_partition.partition] = log
    topics = []
    for name, partitions in by_topic.items():
        ids = {log.topic_id for log in partitions.values() if log.topic_id is not None}
        if len(ids) > 1 or sorted(partitions) != list(range(len(partitions))):
            logger.warning(
                "The logs of %s in the data directories are not those of one whole topic: left alone.", name
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
            "Took over %d topics from the logs in the data directories. Their settings are not known: until"
            " you set them nothing is deleted (retention.ms=-1, or cleanup.policy=compact where a log was"
            " compacted). `kafkapy import` takes over the settings that Apache Kafka knows.",
            len(topics),
        )
    return topics
