"""The start offsets of share groups: described, altered and deleted by an operator.

They are in the share coordinators. The group says which share partitions have one. They can be altered and
deleted only while the group has no members: nobody reads then, so no leader of a partition holds its state.

Source: Apache Kafka's GroupCoordinatorService and GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from kafkapy.groups.share.persister import SharePartitionErrors, StateSummary
from kafkapy.groups.share.share_groups import ShareGroups, topic_names
from kafkapy.groups.share.state_partitions import StateTopic
from kafkapy.loop.turns import Steps, Turns
from kafkapy.metadata.image import Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kafkapy.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponseTopic,
)
from kafkapy.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kafkapy.protocol.types import TopicPartition, Uuid

UNKNOWN: Final = -1
"""A start offset, lag or number of records that is not known."""

_LARGEST_LAG: Final = 2**63 - 1


class ShareGroupOffsets:
    """Describes, alters and deletes the start offsets of share groups."""

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    # --- describe -------------------------------------------------------------------------------------

    async def describe(
        self, group_id: str, topics: Sequence[DescribeShareGroupOffsetsRequestTopic], turns: Turns
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        """The start offsets of these partitions; -1 where there is none.

        Raises:
            KafkaError: they cannot be read.
        """
        wanted, unknown = await turns.finish(self._asked(topics))
        return [*await self._described(group_id, wanted, turns), *unknown]

    def _asked(
        self, topics: Sequence[DescribeShareGroupOffsetsRequestTopic]
    ) -> Steps[tuple[Mapping[Uuid, Collection[int]], Sequence[DescribeShareGroupOffsetsResponseTopic]]]:
        """The partitions of topics that exist, each once, and the answers about other topics."""
        images = self._groups.topics.image.topics
        wanted: dict[Uuid, dict[int, None]] = {}
        unknown = []
        for topic in topics:
            yield
            found = images.get(topic.topic_name)
            if found is not None:
                wanted.setdefault(found.id, {}).update(dict.fromkeys(topic.partitions))
                continue
            answer = DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
            unknown.append(answer)
            for each in topic.partitions:
                yield
                answer.partitions.append(_described(each, None, None))
        return wanted, unknown

    async def describe_all(self, group_id: str, turns: Turns) -> list[DescribeShareGroupOffsetsResponseTopic]:
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
        return await self._described(group_id, wanted, turns)

    async def _described(
        self, group_id: str, wanted: Mapping[Uuid, Collection[int]], turns: Turns
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        existing = await turns.finish(self._existing(wanted))
        if not existing:
            return []
        state = self._groups.state
        names = topic_names(existing, self._groups.topics)
        summaries = await state.summaries(group_id, existing)
        with_lag = [
            TopicPartition(names[topic], partition)
            for (topic, partition), summary in summaries.items()
            if isinstance(summary, StateSummary)
            and UNKNOWN not in (summary.start_offset, summary.delivery_complete_count)
        ]
        ends = await state.end_offsets(with_lag)

        def answers() -> Steps[list[DescribeShareGroupOffsetsResponseTopic]]:
            found = []
            for topic, name in names.items():
                answer = DescribeShareGroupOffsetsResponseTopic(topic_id=topic, topic_name=name)
                found.append(answer)
                for each in wanted[topic]:
                    yield
                    summary, end = summaries.get((topic, each)), ends.get(TopicPartition(name, each))
                    answer.partitions.append(_described(each, summary, end))
            return found

        return await turns.finish(answers())

    def _existing(self, wanted: Mapping[Uuid, Iterable[int]]) -> Steps[Mapping[Uuid, Collection[int]]]:
        """Those of the partitions that exist, each once; none of topics that do not exist any more."""
        topics = self._groups.topics.image.topics_by_id
        existing: dict[Uuid, dict[int, None]] = {}
        for topic_id, partitions in wanted.items():
            topic = topics.get(topic_id)
            if topic is None:
                continue
            found = existing[topic_id] = {}
            for each in partitions:
                yield
                if _has(topic, each):
                    found[each] = None
        return existing

    # --- alter ----------------------------------------------------------------------------------------

    async def alter(
        self, group_id: str, topics: Sequence[AlterShareGroupOffsetsRequestTopic], turns: Turns
    ) -> list[AlterShareGroupOffsetsResponseTopic]:
        """Let partitions begin at these offsets; a group that does not exist is created.

        Raises:
            KafkaError: the group has members, or it cannot be written.
        """
        groups = self._groups
        state = groups.state
        answers, wanted = await turns.finish(self._altered(topics))
        group = groups.empty_group(group_id, create=True)
        names = topic_names(wanted, groups.topics)  # without topics that were deleted meanwhile
        offsets = {topic: wanted[topic] for topic in names}
        if not offsets:
            return answers
        begun = {topic: StateTopic(names[topic], frozenset(found)) for topic, found in offsets.items()}
        await groups.changed(group, group.state_partitions.begin(begun))
        errors = await state.initialize(group_id, group.epoch, offsets)
        if not errors:
            await groups.changed(group, group.state_partitions.complete(begun))
            return answers
        return await turns.finish(_with_errors(answers, errors))

    def _altered(
        self, topics: Sequence[AlterShareGroupOffsetsRequestTopic]
    ) -> Steps[tuple[list[AlterShareGroupOffsetsResponseTopic], Mapping[Uuid, Mapping[int, int]]]]:
        """The answers if all goes well, and the new offsets of the partitions that exist."""
        images = self._groups.topics.image.topics
        answers = []
        offsets: dict[Uuid, dict[int, int]] = {}
        for wanted in topics:
            yield
            topic = images.get(wanted.topic_name)
            answer = AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
            answers.append(answer)
            known: dict[int, int] = {}
            if topic is not None:
                answer.topic_id = topic.id
            for each in wanted.partitions:
                yield
                partition = AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
                answer.partitions.append(partition)
                if topic is not None and _has(topic, each.partition_index):
                    known[each.partition_index] = each.start_offset
                else:
                    partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is not None and known:
                offsets[topic.id] = known
        return answers, offsets

    # --- delete ---------------------------------------------------------------------------------------

    async def delete(
        self, group_id: str, named: Sequence[DeleteShareGroupOffsetsRequestTopic], turns: Turns
    ) -> list[DeleteShareGroupOffsetsResponseTopic]:
        """Delete the states of all share partitions of these topics.

        Raises:
            KafkaError: the group has members, or it cannot be written.
        """
        groups = self._groups
        state = groups.state
        topics, answers = await turns.finish(self._named(named))
        group = groups.empty_group(group_id)
        partitions = group.state_partitions
        doomed: dict[Uuid, frozenset[int]] = {}
        for topic in topics:
            if topic.id in partitions.initialized:
                doomed[topic.id] = partitions.initialized[topic.id].partitions
            elif topic.id in partitions.deleting:
                doomed[topic.id] = frozenset(range(len(topic.partitions)))
            else:
                answers.append(_not_deleted(topic.name, "There is no offset information to delete."))
        if not doomed:
            return answers
        topic_of = {topic.id: topic.name for topic in topics if topic.id in doomed}
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

    def _named(
        self, named: Iterable[DeleteShareGroupOffsetsRequestTopic]
    ) -> Steps[tuple[Collection[Topic], list[DeleteShareGroupOffsetsResponseTopic]]]:
        """The topics that exist, each once, and the answers about the other names."""
        images = self._groups.topics.image.topics
        topics: dict[str, Topic] = {}
        answers = []
        for each in named:
            yield
            topic = images.get(each.topic_name)
            if topic is None:
                answers.append(_not_deleted(each.topic_name, None))
            else:
                topics[topic.name] = topic
        return topics.values(), answers


def _not_deleted(name: str, why: str | None) -> DeleteShareGroupOffsetsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=error, error_message=why)


def _has(topic: Topic, partition: int) -> bool:
    return 0 <= partition < len(topic.partitions)


def _with_errors(
    answers: list[AlterShareGroupOffsetsResponseTopic], errors: SharePartitionErrors
) -> Steps[list[AlterShareGroupOffsetsResponseTopic]]:
    for answer in answers:
        for partition in answer.partitions:
            yield
            error = errors.get((answer.topic_id, partition.partition_index))
            if error is not None:
                partition.error_code, partition.error_message = error.code, error.message
    return answers


def _described(
    partition: int, summary: StateSummary | KafkaError | None, end: int | ErrorCode | None
) -> DescribeShareGroupOffsetsResponsePartition:
    answer = DescribeShareGroupOffsetsResponsePartition(partition_index=partition, start_offset=UNKNOWN)
    if summary is None or isinstance(summary, KafkaError):
        return answer
    if isinstance(end, ErrorCode):
        answer.start_offset, answer.error_code = 0, end
        return answer
    answer.start_offset, answer.leader_epoch = summary.start_offset, summary.leader_epoch
    if end is not None:
        # An operator may let a group begin at any negative offset.
        answer.lag = min(end - summary.start_offset - summary.delivery_complete_count, _LARGEST_LAG)
    return answer
