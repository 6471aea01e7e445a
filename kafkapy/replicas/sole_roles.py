"""The roles of the partitions of a broker alone, which the metadata gives them.

A broker alone has no controller that asks something of it (controller_requests.py). It hosts and leads what a
new image has, and deletes what it has no more, by the same calls to the `ReplicaManager`. A controller of its
own, which would ask by requests, costs more: a cluster of one broker takes 1.98 s of CPU to create 20 topics
of 400 partitions and 2.4 s to delete them, a broker alone 1.55 s and 0.75 s.

`apply` is called with every new metadata image, after it is committed and before the request that changed it
is answered. So a client can produce to a topic as soon as its creation is acknowledged. The files of its
partitions are created afterwards, in the background (storage/log/new_log.py).

The files of a deleted partition are renamed at once and removed later (`file.delete.delay.ms`), so the
topic's name can be used again immediately.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.leader import Leader, LeaderParts
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.replica_manager import REOPENED_AT_ONCE, ReplicaManager
from kafkapy.storage.disk.errors import StorageError, StuckError, TransientStorageError

MANY_PARTITIONS: Final = 50
"""How many logs are created or deleted in one turn of the event loop.

The logs of a smaller deleted topic are deleted at once.
"""

NAMED: Final = 20
"""How many logs without a topic a log line names."""

logger = logging.getLogger(__name__)


class SoleRoles:
    """Has a broker alone lead its partitions."""

    def __init__(
        self, replicas: ReplicaManager, mover: LogMover, *, node_id: int, now: Callable[[], float]
    ) -> None:
        """`now` is the clock of the event loop, in seconds."""
        self._replicas = replicas
        self._logs = replicas.logs
        self._mover = mover
        self._node_id = node_id
        self._leader_parts = LeaderParts(
            node_id=node_id,
            now=now,
            lag_seconds=lambda: 0.0,
            registered_epoch=lambda broker: None,  # nobody else is
            propose=lambda proposal: None,  # nobody comes into sync
        )
        self._to_delete: list[TopicPartition] = []
        """The deleted partitions whose logs are still to be deleted."""
        self._to_delete_later: list[TopicPartition] = []
        """Those of them whose log directory is stuck."""

    # --- what the metadata has ------------------------------------------------------------------------------

    async def prepare(self, old: MetadataImage, new: MetadataImage) -> None:
        """Create the logs of new partitions before `apply` would, some at a time.

        Requests are handled in between.
        """
        made = 0
        for name in new.changed_topics(old):
            topic, before = new.topics.get(name), old.topics.get(name)
            if topic is None or (before is not None and before.id != topic.id):
                continue
            config = self._replicas.log_config(topic.configs)
            for index in range(0 if before is None else len(before.partitions), len(topic.partitions)):
                key = TopicPartition(name, index)
                if self._node_id in topic.partitions[index].replicas and key not in self._logs.moves.copies:
                    with contextlib.suppress(KafkaError):  # `apply` tries again and reports the error
                        self._logs.create(key, topic.id, config)
                    made += 1
                    if made % MANY_PARTITIONS == 0:
                        await asyncio.sleep(0)

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Lead the partitions that `new` has, and delete those that it has no more."""
        is_first = not old.cluster_id
        for name in new.changed_topics(old):
            before, topic = old.topics.get(name), new.topics.get(name)
            if before is not None and (topic is None or topic.id != before.id):
                self._delete_topic(before)
                if topic is not None or len(before.partitions) < MANY_PARTITIONS:
                    self._delete_logs(len(self._to_delete))
                before = None
            if topic is not None:
                self._apply_topic(topic, self._new_from(topic, before, is_first))

    def _new_from(self, topic: Topic, before: Topic | None, is_first: bool) -> int:
        """The index from which on the partitions of `topic` are new.

        New partitions have no logs in any directory. Partitions in the first image, and those of adopted
        topics, existed before.
        """
        count = len(topic.partitions)
        if before is not None:
            return len(before.partitions)
        found = (TopicPartition(topic.name, index) in self._logs.logs for index in range(count))
        return count if is_first or any(found) else 0

    def _apply_topic(self, topic: Topic, new_from: int) -> None:
        replicas = self._replicas
        for index, state in enumerate(topic.partitions):
            key = TopicPartition(topic.name, index)
            partition = replicas.find(key)
            if partition is not None:
                if partition.leader_epoch != state.leader_epoch:
                    replicas.lead(partition, Leader(partition, state, self._leader_parts))
            elif self._node_id in state.replicas:
                self._open(topic, key, new=index >= new_from)

    def _open(self, topic: Topic, key: TopicPartition, *, new: bool) -> None:
        """Host a partition and lead it, or let it be offline."""
        replicas = self._replicas
        try:
            partition = replicas.host(key, topic.id, topic.configs, new=new)
        except TransientStorageError as error:
            if not replicas.waiting_for_room:
                logger.error("%s, and maybe others, are offline until there is room: %s", key, error)
            replicas.cannot_serve(key, error, new=new)
        except KafkaError as error:
            logger.error("%s stays offline: %s", key, error)
            replicas.cannot_serve(key, error)
        else:
            replicas.lead(partition, Leader(partition, topic.partitions[key.partition], self._leader_parts))

    # --- what the disk did not take -------------------------------------------------------------------------

    def reopen(self, image: MetadataImage) -> bool:
        """Open some of the partitions that lacked room; return whether to call again at once.

        The first failure ends the attempt: the other partitions would fail for the same reason.
        """
        waiting = self._replicas.waiting_for_room
        for key, new in list(waiting.items())[:REOPENED_AT_ONCE]:
            self._open(image.topics[key.topic], key, new=new)
            if self._replicas.find(key) is None:
                return False
            if not waiting:
                logger.info("The partitions that were offline for lack of resources are online again.")
        return bool(waiting)

    # --- deletions ------------------------------------------------------------------------------------------

    def _delete_topic(self, topic: Topic) -> None:
        for index in range(len(topic.partitions)):
            key = TopicPartition(topic.name, index)
            partition = self._replicas.stop_hosting(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if partition is not None:
                self._replicas.tell_leadership(partition, leads=False)
            self._mover.deleted(key)
            self._to_delete.append(key)

    def _delete_logs(self, count: int) -> None:
        stuck = []
        for key in self._to_delete[-count:]:
            if self._replicas.has(key):
                continue  # created anew meanwhile, which has set the old log aside
            try:
                self._logs.delete(key)
            except StuckError:
                stuck.append(key)
            except StorageError as error:
                # A later start recognises the log by its topic id as that of a deleted topic.
                logger.error("%s is deleted, but its files stay: %s", key, error)
        del self._to_delete[-count:]
        self._to_delete_later += stuck

    async def delete_rest(self) -> None:
        """Delete the logs of deleted topics whose log directory was stuck."""
        if self._to_delete_later:
            self._to_delete += self._to_delete_later
            self._to_delete_later = []
            await self.settle()

    async def settle(self) -> None:
        """Delete the logs of large deleted topics in steps, and sync all deletions.

        Requests are handled in between. Only then may the topics be removed from the metadata. A log in a
        stuck directory stays until `delete_rest`: other changes of metadata would wait as well. A start that
        comes first recognises it by its topic id.
        """
        while self._to_delete:
            self._delete_logs(min(MANY_PARTITIONS, len(self._to_delete)))
            await asyncio.sleep(0)
        await self._replicas.settle()

    # --- the start ------------------------------------------------------------------------------------------

    def drop_stray_copies(self) -> None:
        """Delete the copies of partitions whose topics were deleted."""
        for key in list(self._logs.moves.copies):
            if not self._replicas.has(key):
                self._mover.deleted(key)

    def report_orphans(self) -> None:
        """Log a warning about logs that belong to no topic.

        Their directory was offline when the topic was deleted, or somebody copied them there.
        """
        orphans = [log for key, log in self._logs.logs.items() if not self._replicas.has(key)]
        if orphans:
            logger.warning(
                "%d logs (%s bytes) belong to no topic of this cluster and are not served: %s%s. They stay as"
                " they are; if a topic of the name is created they are set aside (-stray). To delete them,"
                " remove the directories.",
                len(orphans),
                f"{sum(log.size for log in orphans):,}",
                ", ".join(log.path for log in orphans[:NAMED]),
                ", …" * (len(orphans) > NAMED),
            )
