"""The partitions this broker hosts: created, deleted and configured as the metadata says.

`apply` is called with every new metadata image, after it is committed and before the request that changed it
is answered. So a client may produce to a topic as soon as its creation is acknowledged. The files of its
partitions are made after that, in the background (storage/log/new_log.py).

The files of a deleted partition are renamed at once and removed later (`file.delete.delay.ms`), so a name can
be used again immediately.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.process.waiters import Waiters
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replication import SoleReplica
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.files import StorageError, TransientStorageError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.new_log import make_files

MANY_PARTITIONS: Final = 50
"""How many new partitions have their logs made at once.

A topic with so many partitions has their logs deleted in steps of as many.
"""

FILES_AT_ONCE: Final = 20
"""How many logs' files are made in one go: whoever stops the broker waits so long."""

REOPENED_AT_ONCE: Final = 10
"""How many partitions' logs are made between two looks at who else wants something."""

NAMED: Final = 20
"""How many logs without a topic are named in the log line."""

logger = logging.getLogger(__name__)


class ReplicaManager:
    """Every partition of this broker by topic and index."""

    def __init__(
        self,
        logs: LogManager,
        group_commit: GroupCommit,
        *,
        blocking: Callable[..., Awaitable[Any]],
        mover: LogMover,
        waiters: Waiters,
        node_id: int,
        defaults: Mapping[str, str],
        sync: bool,
    ) -> None:
        self.logs = logs
        logs.files.open_files.serve_this_thread()
        self._group_commit = group_commit
        self._blocking = blocking
        """Runs a function in a worker thread."""
        self._mover = mover
        self._waiters = waiters
        self._node_id = node_id
        self._defaults = dict(defaults)
        """Topic settings as this broker's own settings give them; a topic's settings override them."""
        self._default_config = LogConfig.from_mapping(defaults)
        self._sync = sync
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._to_delete: list[TopicPartition] = []
        """Partitions that are gone, and whose logs are to be deleted."""
        self._unavailable: dict[tuple[str, int], ErrorCode] = {}
        """Partitions assigned to this broker whose log cannot be opened."""
        self._put_off: dict[TopicPartition, bool] = {}
        """Those of them that may be opened later, as now there is no room or no descriptor.

        It says whether they are new.
        """
        self.new_logs = asyncio.Event()
        """There are logs whose files are to be made."""
        self._lacks_room = False
        """It was logged that there is no room for the files of new logs."""

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def partition(self, topic: str, index: int) -> Partition:
        """The partition, to be read or written.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or KAFKA_STORAGE_ERROR where its log is offline.
        """
        partition = self._partitions.get((topic, index))
        if partition is not None:
            return partition
        error = self._unavailable.get((topic, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise KafkaError(error)

    async def prepare(self, old: MetadataImage, new: MetadataImage) -> None:
        """Make the logs of new partitions before `apply` would, some at a time.

        Requests do not wait.
        """
        made = 0
        for name in new.changed_topics(old):
            topic, before = new.topics.get(name), old.topics.get(name)
            if topic is None or (before is not None and before.id != topic.id):
                continue
            config = self.log_config(topic.configs)
            for index in range(0 if before is None else len(before.partitions), len(topic.partitions)):
                key = TopicPartition(name, index)
                if self._node_id in topic.partitions[index].replicas and key not in self.logs.moves.copies:
                    with contextlib.suppress(KafkaError):  # `apply` meets it again, and reports it
                        self.logs.create(key, topic.id, config)
                    made += 1
                    if made % MANY_PARTITIONS == 0:
                        await asyncio.sleep(0)

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Make the hosted partitions those of `new`."""
        is_first = not old.cluster_id
        for name in new.changed_topics(old):
            before, topic = old.topics.get(name), new.topics.get(name)
            if before is not None and (topic is None or topic.id != before.id):
                self._delete_topic(before)
                if topic is not None or len(before.partitions) < MANY_PARTITIONS:
                    self._delete_logs(len(self._to_delete))
                before = None
            if topic is not None:
                self._apply_topic(topic, before, self._new_from(topic, before, is_first))
        if self.logs.without_files(1):
            self.new_logs.set()

    def set_defaults(self, defaults: Mapping[str, str], image: MetadataImage) -> None:
        """Adopt changed broker defaults of topic settings, at once."""
        self._defaults = dict(defaults)
        self._default_config = LogConfig.from_mapping(defaults)
        for topic in image.topics.values():
            self._configure(topic)

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The effective settings of a topic that sets `overrides`."""
        if not overrides:
            return self._default_config
        return LogConfig.from_mapping({**self._defaults, **overrides})

    def log_directory_failed(self, log_directory: LogDirectory, error: StorageError) -> None:
        """Take the partitions of a failed log directory offline; the others go on."""
        self._mover.log_directory_failed(log_directory)
        for partition in self._partitions.values():
            if not partition.offline and partition.log.log_directory is log_directory:
                partition.close(error.code)

    def reopen(self, image: MetadataImage) -> bool:
        """Open some of the partitions for which there was no room; return whether to go on at once.

        One that fails ends the attempt: the others would lack the same.
        """
        for key in list(self._put_off)[:REOPENED_AT_ONCE]:
            topic, index = image.topics[key.topic], key.partition
            epoch, config = topic.partitions[index].leader_epoch, self.log_config(topic.configs)
            self._open(topic, index, epoch, config, new=self._put_off[key])
            if key not in self._partitions:
                return False
            del self._unavailable[key], self._put_off[key]
            if not self._put_off:
                logger.info("The partitions that were offline for want of room are online.")
        return bool(self._put_off)

    def drop_stray_copies(self) -> None:
        """Delete copies of partitions that this broker does not have: their topics were deleted."""
        for topic_partition in list(self.logs.moves.copies):
            if topic_partition not in self._partitions and topic_partition not in self._unavailable:
                self._mover.deleted(topic_partition)

    def report_orphans(self) -> None:
        """Report which logs belong to no topic.

        Their directory was offline when the topic was deleted, or they were put there.
        """
        known = self._partitions.keys() | self._unavailable.keys()
        orphans = [log for topic_partition, log in self.logs.logs.items() if topic_partition not in known]
        if orphans:
            logger.warning(
                "%d logs (%s bytes) belong to no topic of this cluster and are served to nobody: %s%s. They"
                " stay as they are; if a topic of the name is created they are set aside (-stray). Remove the"
                " directories to give them up.",
                *(len(orphans), f"{sum(log.size for log in orphans):,}"),
                *(", ".join(log.path for log in orphans[:NAMED]), ", …" * (len(orphans) > NAMED)),
            )

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition's log is assigned to this broker and cannot be served.

        Its disk failed then.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            return (topic, index) in self._unavailable
        return partition.offline == ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def any_offline(self) -> bool:
        """Whether there may be a partition that is offline."""
        return bool(self._unavailable or self.logs.offline_dirs)

    def close(self) -> None:
        """Answer everyone who waits: this broker leads nothing any more."""
        for partition in self._partitions.values():
            partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _new_from(self, topic: Topic, before: Topic | None, is_first: bool) -> int:
        """From which index on the partitions of `topic` are new.

        No directory can hold the logs of those. The first image shows what existed before the broker started,
        and so does a topic that was made for logs that were found.
        """
        count = len(topic.partitions)
        if before is not None:
            return len(before.partitions)
        found = (TopicPartition(topic.name, index) in self.logs.logs for index in range(count))
        return count if is_first or any(found) else 0

    def _apply_topic(self, topic: Topic, before: Topic | None, new_from: int) -> None:
        config = self.log_config(topic.configs)
        for index, state in enumerate(topic.partitions):
            key = (topic.name, index)
            partition = self._partitions.get(key)
            if partition is not None:
                if partition.leader_epoch != state.leader_epoch:
                    partition.replication = SoleReplica(state.leader_epoch)
            elif self._node_id in state.replicas:
                self._open(topic, index, state.leader_epoch, config, new=index >= new_from)
        if before is not None and before.configs != topic.configs:
            self._configure(topic)

    def _open(self, topic: Topic, index: int, leader_epoch: int, config: LogConfig, *, new: bool) -> None:
        topic_partition = TopicPartition(topic.name, index)
        try:
            if topic_partition in self.logs.moves.copies:
                self.logs.moves.promote(topic_partition, topic.id)
            log = self.logs.create(topic_partition, topic.id, config, new=new)
            log.log_directory.require_online()
        except TransientStorageError as error:
            if not self._put_off:
                logger.error(
                    "%s-%d, and maybe others, are offline until there is room: %s", *topic_partition, error
                )
            self._unavailable[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            self._put_off.pop(topic_partition, None)
            self._put_off[topic_partition] = new  # after those that may be for another directory
            return
        except (StorageError, KafkaError) as error:
            logger.error("%s-%d stays offline: %s", topic.name, index, error)
            self._unavailable[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            self._put_off.pop(topic_partition, None)
            return
        log.config = config
        # One name and one id serve all partitions: thousands of copies would take memory.
        topic_partition = log.topic_partition
        if log.topic_id == topic.id:
            log.topic_id = topic.id
        self._partitions[topic_partition] = Partition(
            log,
            replication=SoleReplica(leader_epoch),
            group_commit=self._group_commit,
            waiters=self._waiters,
            sync=self._sync,
        )
        self._mover.opened(self._partitions[topic_partition])

    def _configure(self, topic: Topic) -> None:
        config = self.log_config(topic.configs)
        for index in range(len(topic.partitions)):
            partition = self._partitions.get((topic.name, index))
            if partition is not None:
                partition.configure(config)

    def _delete_topic(self, topic: Topic) -> None:
        for index in range(len(topic.partitions)):
            key = TopicPartition(topic.name, index)
            self._unavailable.pop(key, None)
            self._put_off.pop(key, None)
            partition = self._partitions.pop(key, None)
            if partition is not None:
                partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._mover.deleted(key)
            self._to_delete.append(key)

    def _delete_logs(self, count: int) -> None:
        for key in self._to_delete[-count:]:
            try:
                self.logs.delete(key)
            except StorageError as error:
                # What stays is recognised as a deleted topic's log by its topic id.
                logger.error("%s-%d is deleted, but its files stay: %s", *key, error)
        del self._to_delete[-count:]

    async def make_files(self) -> None:
        """Make the files of new logs, in a worker thread, as far as there is room for them."""
        while logs := self.logs.without_files(FILES_AT_ONCE):
            done, lacking = await self._blocking(make_files, logs)
            self.logs.have_files(done)
            if lacking is not None:
                if not self._lacks_room:
                    partition = logs[len(done)].topic_partition
                    logger.warning("%s and others have no files until there is room: %s", partition, lacking)
                self._lacks_room = True
                return
        self._lacks_room = False

    async def settle(self) -> None:
        """Delete the logs of large topics that `apply` has seen go, in steps.

        Requests are not kept waiting. All deletions are on disk then: only now may the metadata forget the
        topics.
        """
        while self._to_delete:
            self._delete_logs(min(MANY_PARTITIONS, len(self._to_delete)))
            await asyncio.sleep(0)
        await self._blocking(self.logs.sync_deletions())
