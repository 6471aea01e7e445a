"""Elections that somebody asks for, and the return of leadership to preferred replicas.

The preferred replica of a partition is the first one. Leadership moves away from it when its broker stops,
and comes back by an election: when a client asks (ElectLeaders), when somebody writes
`/admin/preferred_replica_election`, or when the share of partitions that a broker should lead and does not
is above `leader.imbalance.per.broker.percentage` (`auto.leader.rebalance.enable`).

Source: Kafka's KafkaController (processReplicaLeaderElection, checkAndTriggerAutoLeaderRebalance).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from enum import IntEnum
from typing import Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.controller import partition_states
from kafkapy.controller.leader_election import Elected, elect_offline, elect_preferred
from kafkapy.controller.state_changes import StateChanges
from kafkapy.controller.state_commits import PARTITIONS_AT_ONCE, StateCommits
from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class ElectionType(IntEnum):
    """The election that ElectLeaders asks for."""

    PREFERRED = 0
    UNCLEAN = 1


_UNAVAILABLE: Final = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class LeaderElections:
    """The elections of one controller.

    The caller holds the writer's turn.
    """

    def __init__(self, commits: StateCommits, config: BrokerConfig) -> None:
        self._commits = commits
        self._config = config

    async def elect(
        self,
        election: ElectionType,
        partitions: Iterable[TopicPartition],
        elected: Callable[[Collection[TopicPartition]], None] = lambda _partitions: None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders; return the error of each partition, or None.

        `elected` gets the partitions with a new leader before that leader can answer.

        Raises:
            KafkaError: the metadata could not be changed.
        """
        results: dict[TopicPartition, KafkaError | None] = {}
        wanted = list(dict.fromkeys(partitions))
        for start in range(0, len(wanted), PARTITIONS_AT_ONCE):
            some = wanted[start : start + PARTITIONS_AT_ONCE]

            def build(
                changes: StateChanges, some: Collection[TopicPartition] = some
            ) -> dict[TopicPartition, KafkaError | None]:
                return {partition: self._elect(changes, election, partition) for partition in some}

            made = await self._commits.make(build)
            elected([partition for partition, error in made.items() if error is None])
            results.update(made)
            await asyncio.sleep(0)  # let other requests run
        return results

    async def rebalance(self) -> None:
        """Have preferred replicas lead again, if too many of those of a broker do not.

        Raises:
            KafkaError: the metadata could not be changed.
        """
        preferred: defaultdict[int, int] = defaultdict(int)
        astray: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for topic in self._commits.image.topics.values():
            for index, state in enumerate(topic.partitions):
                if not state.replicas:
                    continue  # a gap: there is no partition of this number
                broker = state.replicas[0]
                preferred[broker] += 1
                if state.leader != broker:
                    astray[broker].append(TopicPartition(topic.name, index))
        allowed = self._config["leader.imbalance.per.broker.percentage"] / 100
        for broker, partitions in astray.items():
            if len(partitions) / preferred[broker] > allowed:
                electable = [partition for partition in partitions if self._preferred(partition) is not None]
                if electable:
                    logger.info("Broker %d leads %d of its partitions again", broker, len(electable))
                    await self.elect(ElectionType.PREFERRED, electable)

    def _elect(
        self, changes: StateChanges, election: ElectionType, partition: TopicPartition
    ) -> KafkaError | None:
        context, state = changes.context, changes.find(partition)
        if partition.topic in context.deletions:
            return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        if state is None or not state.replicas:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        if self._is_led(election, partition, state):
            return KafkaError(
                ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
            )
        online = context.online(state.replicas, partition)
        elected: Elected | None
        if election is ElectionType.PREFERRED:
            elected = elect_preferred(state, online)
        else:
            elected = elect_offline(state, online, unclean=True)
        if elected is None:
            what = "preferred" if election is ElectionType.PREFERRED else "eligible"
            return KafkaError(
                _UNAVAILABLE[election],
                f"Failed to elect a leader for {partition}: no {what} replica can lead.",
            )
        if elected.leader not in state.isr:
            logger.warning(
                "Unclean election as requested: broker %d leads %s though it is not in sync.",
                elected.leader,
                partition,
            )
        partition_states.lead(changes, partition, elected)
        return None

    def _is_led(self, election: ElectionType, partition: TopicPartition, state: PartitionState) -> bool:
        """Whether a partition has the leader that the election is to find."""
        if election is ElectionType.PREFERRED:
            return state.leader == state.replicas[0]
        return self._commits.context.is_online(state.leader, partition)

    def _preferred(self, partition: TopicPartition) -> Elected | None:
        state = self._commits.image.partition(*partition)
        if state is None:
            return None
        return elect_preferred(state, self._commits.context.online(state.replicas, partition))
