"""Moves the replicas of partitions to other brokers (KIP-455).

A partition that is moving has all replicas, old and new. `adding` are the new ones, `removing` those that
go at the end; both are in the topic's node, so a new controller continues where its predecessor stopped.

1. The topic's node gets the replicas, and the partition a new leader epoch. New replicas start to follow.
They
   join the in-sync replicas when they have caught up, by AlterPartition.
2. When all replicas that stay are in sync, the others leave: the topic's node and the in-sync replicas lose
   them, one of those that stay leads, and the brokers of the others are asked to delete them.

Each step is one transaction. Another target may be given in between: the new replicas that it does not need
are deleted at once. To cancel is to give the old replicas as the target.

A broker that is down when its replica is removed keeps the files, as with Apache Kafka. If it has only lost
its session, it sees in the tree that it leads no more (replica_manager.py).

Source: Kafka's KafkaController.onPartitionReassignment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkapy.controller import partition_states, replica_states
from kafkapy.controller.context import PartitionStatus, Replica, ReplicaStatus
from kafkapy.controller.leader_election import Elected, elect_reassigned
from kafkapy.controller.state_changes import StateChanges
from kafkapy.controller.state_commits import StateCommits
from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.metadata.store import Delete, MetadataStore, NoNodeError, SetData
from kafkapy.metadata.writer import MetadataWriter
from kafkapy.metadata.znodes import DamagedNodeError
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class Assignment(NamedTuple):
    """The replicas of a partition that is moving."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def reassigned(state: PartitionState, target: Sequence[int]) -> Assignment:
    """The replicas while a partition moves to `target`: those come first, then the others."""
    origin = dict.fromkeys(broker for broker in state.replicas if broker not in state.adding)
    wanted = dict.fromkeys(target)
    replicas = tuple(wanted | origin)
    return Assignment(
        replicas,
        tuple(broker for broker in replicas if broker not in origin),
        tuple(broker for broker in replicas if broker not in wanted),
    )


def check_target(
    state: PartitionState, target: Sequence[int], live: Collection[int], *, may_change_factor: bool = True
) -> None:
    """Check the replicas that somebody wants for a partition.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT or INVALID_REPLICATION_FACTOR.
    """
    if not target:
        raise _invalid("Empty replica list specified in partition reassignment.")
    if len(target) > len(live) + len(state.replicas):
        raise _invalid(f"A partition cannot have {len(target)} replicas: there are {len(live)} live brokers.")
    if len(set(target)) < len(target):
        raise _invalid(f"Duplicate replica ids in partition reassignment replica list: {list(target)}")
    if any(broker < 0 for broker in target):
        raise _invalid(f"Invalid broker id in replica list: {list(target)}")
    adding = reassigned(state, target).adding
    if not set(adding) <= set(live):
        raise _invalid(
            f"Replica assignment has brokers that are not alive. Replica list: {list(adding)}, "
            f"live broker list: {sorted(live)}"
        )
    factor = len([broker for broker in state.replicas if broker not in state.removing])
    if not may_change_factor and len(target) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )


def start(changes: StateChanges, partition: TopicPartition, target: Sequence[int]) -> None:
    """Begin to move a partition, or change where it moves to."""
    before = changes.state(partition)
    wanted = reassigned(before, target)
    unneeded = [broker for broker in before.replicas if broker not in wanted.replicas]
    changes.assign(partition, *wanted)
    isr = tuple(broker for broker in before.isr if broker in wanted.replicas)
    if not isr:
        raise _invalid(f"No in-sync replica of {partition} would be left.")
    leader = before.leader
    if leader in unneeded:
        # A new replica that caught up may have been elected before the move was cancelled.
        elected = elect_reassigned(
            before._replace(replicas=wanted.replicas, removing=(), isr=isr),
            changes.context.online(wanted.replicas, partition),
        )
        if elected is None:
            raise _invalid(f"Broker {leader} leads {partition}, and no other replica can.")
        leader = elected.leader
    changes.write(partition, Elected(leader, isr, before.recovery_state))
    for broker in wanted.replicas:
        if changes.context.is_alive(broker, partition):
            replica = Replica(*partition, broker)
            replica_states.come_online(changes, replica, is_new=broker in wanted.adding)
    _delete(changes, partition, unneeded)
    finish(changes, partition)


def finish(changes: StateChanges, partition: TopicPartition) -> bool:
    """Complete the move if it can be completed; return whether it was.

    All replicas that stay must be in sync, and one of them must be able to lead.
    """
    state = changes.state(partition)
    target = tuple(broker for broker in state.replicas if broker not in state.removing)
    if not (state.adding or state.removing) or not set(target) <= set(state.isr):
        return False
    online = changes.context.online(target, partition)
    elected = (
        Elected(state.leader, state.isr, state.recovery_state)
        if state.leader in target and changes.context.is_alive(state.leader, partition)
        else elect_reassigned(state, online)
    )
    if elected is None:
        return False
    changes.assign(partition, target)
    isr = tuple(broker for broker in state.isr if broker in target)
    partition_states.lead(changes, partition, elected._replace(isr=isr))
    _delete(changes, partition, state.removing)
    return True


def _delete(changes: StateChanges, partition: TopicPartition, brokers: Iterable[int]) -> None:
    """Have brokers delete their replicas, which are not assigned any more."""
    for broker in brokers:
        replica = Replica(*partition, broker)
        replica_states.start_deletion(changes, replica)
        if changes.replica_status(replica) is ReplicaStatus.DELETION_STARTED:
            replica_states.move(changes, replica, ReplicaStatus.DELETION_SUCCESSFUL)
            replica_states.move(changes, replica, ReplicaStatus.NON_EXISTENT)
        else:
            logger.warning(
                "Broker %d is down and keeps the files of %s, which has moved away from it", broker, partition
            )
            changes.set_replica_status(replica, ReplicaStatus.NON_EXISTENT)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


class Reassignments:
    """The moves of one controller.

    The caller holds the writer's turn.
    """

    def __init__(self, commits: StateCommits, writer: MetadataWriter, store: MetadataStore) -> None:
        self._commits = commits
        self._writer = writer
        self._store = store
        self._moving: dict[TopicPartition, None] = {}
        self._by_hand = False
        """Whether somebody asks for moves in `/admin/reassign_partitions`."""

    def find(self, image: MetadataImage) -> None:
        """Find all partitions that are moving."""
        for topic in image.topics.values():
            self.note(topic)

    def note(self, topic: Topic) -> None:
        """Note which partitions of a topic are moving."""
        for index, state in enumerate(topic.partitions):
            if state.adding or state.removing:
                self._moving[TopicPartition(topic.name, index)] = None

    def moving(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionState]:
        """The states of the partitions that are moving: all of them, or those of `partitions`."""
        image = self._commits.image
        found = {}
        for partition in self._moving if partitions is None else partitions:
            state = image.partition(*partition)
            if state is not None and (state.adding or state.removing):
                found[partition] = state
        return found

    async def alter(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        may_change_factor: bool = True,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions, or stop moving them (None); return the error of each, or None.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        results: dict[TopicPartition, KafkaError | None] = {}
        for partition, target in wanted.items():

            def build(
                changes: StateChanges,
                partition: TopicPartition = partition,
                target: Sequence[int] | None = target,
            ) -> None:
                self._start(changes, partition, target, may_change_factor=may_change_factor)

            try:
                await self._commits.make(build)
                results[partition] = None
                self._moving[partition] = None
                self._forget_finished([partition])
            except KafkaError as error:
                if error.code is ErrorCode.NOT_CONTROLLER:
                    raise
                results[partition] = error
            await asyncio.sleep(0)  # let other requests run
        return results

    async def advance(self, partitions: Iterable[TopicPartition]) -> None:
        """Complete the moves of those partitions whose replicas are all in sync.

        Raises:
            KafkaError: the metadata could not be changed.
        """
        moving = [partition for partition in partitions if partition in self._moving]
        for partition in moving:
            if self._commits.image.partition(*partition) is None:
                del self._moving[partition]
                continue

            def build(changes: StateChanges, partition: TopicPartition = partition) -> None:
                # The image may show a partition that the controller has not taken in yet.
                if changes.status(partition) is not PartitionStatus.NON_EXISTENT:
                    finish(changes, partition)

            await self._commits.make(build)
        self._forget_finished(moving)
        if self._by_hand and moving:
            await self._write_what_is_left()

    async def advance_all(self) -> None:
        """Complete all moves that can be completed.

        Raises as `advance`.
        """
        await self.advance(list(self._moving))

    async def take_by_hand(self) -> None:
        """Begin the moves that somebody has written into `/admin/reassign_partitions`.

        Raises:
            KafkaError, MetadataStoreError: not all could be read or begun.
        """
        wanted = await self._read()
        moving = self.moving()
        for partition, error in (
            await self.alter(
                {
                    partition: target
                    for partition, target in wanted.items()
                    if partition not in moving
                    or tuple(b for b in moving[partition].replicas if b not in moving[partition].removing)
                    != target
                }
            )
        ).items():
            if error is not None:
                logger.error(
                    "%s cannot be moved as %s asks: %s", partition, znodes.REASSIGN_PARTITIONS, error
                )
        self._by_hand = bool(wanted)
        if wanted:
            await self._write_what_is_left()

    async def forget_by_hand(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions out of `/admin/reassign_partitions`: a request gives them another target.

        Raises:
            KafkaError, MetadataStoreError: the node could not be changed.
        """
        if self._by_hand:
            await self._write_what_is_left(partitions)

    async def _write_what_is_left(self, but: Collection[TopicPartition] = ()) -> None:
        """Leave only the partitions that are still moving in the node; delete it after the last."""

        async def attempt() -> None:
            try:
                node = await self._store.get(znodes.REASSIGN_PARTITIONS)
                wanted = znodes.decode_reassignment(node.data)
            except NoNodeError:
                self._by_hand = False
                return
            except DamagedNodeError:
                wanted = {}
            moving = self.moving()
            left = {
                partition: target
                for partition, target in wanted.items()
                if partition in moving and partition not in but
            }
            if left and left != wanted:
                data = znodes.encode_reassignment(left)
                await self._writer.commit([SetData(znodes.REASSIGN_PARTITIONS, data, node.stat.version)])
            elif not left:
                await self._writer.commit([Delete(znodes.REASSIGN_PARTITIONS, node.stat.version)])
            self._by_hand = bool(left)

        await self._writer.until_current(attempt)

    async def _read(self) -> dict[TopicPartition, tuple[int, ...]]:
        try:
            return znodes.decode_reassignment((await self._store.get(znodes.REASSIGN_PARTITIONS)).data)
        except NoNodeError:
            return {}
        except DamagedNodeError as error:
            logger.error("a reassignment is ignored: %s", error)
            return {}

    def _start(
        self,
        changes: StateChanges,
        partition: TopicPartition,
        target: Sequence[int] | None,
        *,
        may_change_factor: bool,
    ) -> None:
        state = changes.find(partition)
        if state is None or not state.replicas or changes.status(partition) is PartitionStatus.NON_EXISTENT:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        if target is None:
            if not (state.adding or state.removing):
                raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            target = [broker for broker in state.replicas if broker not in state.adding]
        else:
            live = [broker for broker in changes.context.brokers if changes.context.is_live(broker)]
            check_target(state, target, live, may_change_factor=may_change_factor)
        if tuple(target) != state.replicas or state.adding or state.removing:
            start(changes, partition, target)

    def _forget_finished(self, partitions: Collection[TopicPartition]) -> None:
        moving = self.moving(partitions)
        for partition in partitions:
            if partition not in moving:
                self._moving.pop(partition, None)
