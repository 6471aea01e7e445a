"""The start offsets of share groups: described, altered and deleted by an operator.

They are in the share coordinators. The group says which share partitions have one. They can be altered and
deleted only while the group has no members: nobody reads then, so no leader of a partition holds its state.

Source: Apache Kafka's GroupCoordinatorService and GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kafkapy.groups.share.persister import StateSummary
from kafkapy.groups.share.share_groups import ShareGroups, topic_names
from kafkapy.groups.share.state_partitions import StateTopic
from kafkapy.metadata.image import Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kafkapy.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from kafkapy.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kafkapy.protocol.types import TopicPartition, Uuid

UNKNOWN = -1
"""A start offset, lag or number of records that is not known."""


class ShareGroupOffsets:
    """Describes, alters and deletes the start offsets of share groups."""

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    # --- describe -------------------------------------------------------------------------------------

    async def describe(
        self, group_id: str, topics: Sequence[DescribeShareGroupOffsetsRequestTopic]
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        """The start offsets of these partitions; -1 where there is none.

        Raises:
            KafkaError: they cannot be read.
        """
        images = self._groups.topics.image.topics
        wanted: dict[Uuid, list[int]] = {}
        unknown = []
        for topic in topics:
            found = images.get(topic.topic_name)
            if found is not None:
                wanted.setdefault(found.id, []).extend(topic.partitions)
                continue
            unknown.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    partitions=[
                        DescribeShareGroupOffsetsResponsePartition(partition_index=each, start_offset=UNKNOWN)
                        for each in topic.partitions
                    ],
                )
            )
        return [*await self._described(group_id, wanted), *unknown]

    async def describe_all(self, group_id: str) -> list[DescribeShareGroupOffsetsResponseTopic]:
        """The start offsets of all share partitions of a group: none if there is no such group.

        Raises:
            KafkaError: they cannot be read.
        """
        groups = self._groups
        try:
            initialized = groups.require_group(group_id).state_partitions.initialized
        except KafkaError:
            return []
        topics = groups.topics.image.topics_by_id
        wanted = {topic: sorted(found.partitions) for topic, found in initialized.items() if topic in topics}
        return await self._described(group_id, wanted)

    async def _described(
        self, group_id: str, wanted: Mapping[Uuid, Collection[int]]
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        if not wanted:
            return []
        state = self._groups.state
        names = topic_names(wanted, self._groups.topics)
        summaries = await state.summaries(group_id, wanted)
        with_lag = [
            TopicPartition(names[topic], partition)
            for (topic, partition), summary in summaries.items()
            if isinstance(summary, StateSummary)
            and UNKNOWN not in (summary.start_offset, summary.delivery_complete_count)
        ]
        ends = await state.end_offsets(with_lag)
        return [
            DescribeShareGroupOffsetsResponseTopic(
                topic_id=topic,
                topic_name=names[topic],
                partitions=[
                    _described(each, summaries[topic, each], ends.get(TopicPartition(names[topic], each)))
                    for each in partitions
                ],
            )
            for topic, partitions in wanted.items()
        ]

    # --- alter ----------------------------------------------------------------------------------------

    async def alter(
        self, group_id: str, topics: Sequence[AlterShareGroupOffsetsRequestTopic]
    ) -> list[AlterShareGroupOffsetsResponseTopic]:
        """Let partitions begin at these offsets; a group that does not exist is created.

        Raises:
            KafkaError: the group has members, or it cannot be written.
        """
        groups = self._groups
        state = groups.state
        group = groups.empty_group(group_id, create=True)
        images = groups.topics.image.topics
        offsets: dict[Uuid, dict[int, int]] = {}
        begun: dict[Uuid, StateTopic] = {}
        answers = []
        for topic in topics:
            found = images.get(topic.topic_name)
            if found is not None:
                known = [each for each in topic.partitions if _has(found, each.partition_index)]
                if known:
                    offsets[found.id] = {each.partition_index: each.start_offset for each in known}
                    begun[found.id] = StateTopic(found.name, frozenset(offsets[found.id]))
            answers.append(_altered(topic, found))
        if not offsets:
            return answers
        await groups.changed(group, group.state_partitions.begin(begun))
        errors = await state.initialize(group_id, group.epoch, offsets)
        if not errors:
            await groups.changed(group, group.state_partitions.complete(begun))
        for answer in answers:
            for partition in answer.partitions:
                error = errors.get((answer.topic_id, partition.partition_index))
                if error is not None:
                    partition.error_code, partition.error_message = error.code, error.message
        return answers

    # --- delete ---------------------------------------------------------------------------------------

    async def delete(self, group_id: str, names: Sequence[str]) -> list[DeleteShareGroupOffsetsResponseTopic]:
        """Delete the states of all share partitions of these topics.

        Raises:
            KafkaError: the group has members, or it cannot be written.
        """
        groups = self._groups
        state = groups.state
        group = groups.empty_group(group_id)
        partitions, images = group.state_partitions, groups.topics.image.topics
        doomed: dict[Uuid, frozenset[int]] = {}
        answers = []
        for name in names:
            topic = images.get(name)
            if topic is not None and topic.id in partitions.initialized:
                doomed[topic.id] = partitions.initialized[topic.id].partitions
            elif topic is not None and topic.id in partitions.deleting:
                doomed[topic.id] = frozenset(range(len(topic.partitions)))
            else:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                why = None if topic is None else "There is no offset information to delete."
                answers.append(
                    DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=error, error_message=why)
                )
        if not doomed:
            return answers
        topic_of = topic_names(doomed, groups.topics)
        await groups.changed(group, partitions.delete(topic_of))
        errors = {topic: error for (topic, _), error in (await state.delete(group_id, doomed)).items()}
        gone = doomed.keys() - errors.keys()
        if gone:
            await groups.changed(group, group.state_partitions.forget(gone))
        for topic_id in doomed:
            answer = DeleteShareGroupOffsetsResponseTopic(topic_id=topic_id, topic_name=topic_of[topic_id])
            if topic_id in errors:
                answer.error_code, answer.error_message = errors[topic_id].code, errors[topic_id].message
            answers.append(answer)
        return answers


def _has(topic: Topic, partition: int) -> bool:
    return 0 <= partition < len(topic.partitions)


def _altered(
    wanted: AlterShareGroupOffsetsRequestTopic, topic: Topic | None
) -> AlterShareGroupOffsetsResponseTopic:
    answer = AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
    if topic is not None:
        answer.topic_id = topic.id
    for each in wanted.partitions:
        partition = AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
        if topic is None or not _has(topic, each.partition_index):
            partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.partitions.append(partition)
    return answer


def _described(
    partition: int, summary: StateSummary | KafkaError, end: int | ErrorCode | None
) -> DescribeShareGroupOffsetsResponsePartition:
    answer = DescribeShareGroupOffsetsResponsePartition(partition_index=partition, start_offset=UNKNOWN)
    if isinstance(summary, KafkaError):
        return answer
    if isinstance(end, ErrorCode):
        answer.start_offset, answer.error_code = 0, end
        return answer
    answer.start_offset, answer.leader_epoch = summary.start_offset, summary.leader_epoch
    if end is not None:
        answer.lag = end - summary.start_offset - summary.delivery_complete_count
    return answer
