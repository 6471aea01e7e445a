"""The partitions of this broker: opened, closed, deleted and configured.

`apply` is called with every new metadata image, after it is committed and before the request that changed it
is answered. So a client can produce to a topic as soon as its creation is acknowledged. The files of its
partitions are created afterwards, in the background (storage/log/new_log.py).

A broker without a cluster opens and deletes partitions as the image has them, and leads them all. In a
cluster the image only brings settings, and the state of the partitions that this broker leads, or led before
they moved away. The controller has partitions opened and deleted (controller_requests.py).

The files of a deleted partition are renamed at once and removed later (`file.delete.delay.ms`), so the
topic's name can be used again immediately.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.leader import Leader
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replication import Replication, SoleReplica, Unassigned
from kafkapy.replicas.replication_quota import ReplicationQuotas
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import StorageError, StuckError, TransientStorageError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.new_log import make_files
from kafkapy.storage.log.partition_log import PartitionLog

MANY_PARTITIONS: Final = 50
"""How many logs are created or deleted in one turn of the event loop.

The logs of a smaller deleted topic are deleted at once.
"""

FILES_AT_ONCE: Final = 20
"""How many logs get their files in one call of a worker thread, which a stop of the broker waits for."""

REOPENED_AT_ONCE: Final = 10
"""How many partitions are reopened in one turn of the event loop."""

NAMED: Final = 20
"""How many logs without a topic a log line names."""

LeadershipCallback = Callable[[str, int, bool, int], None]
"""Called with a topic, a partition, whether this broker leads it now, and the leader epoch."""

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
        clustered: bool = False,
        quotas: ReplicationQuotas | None = None,
    ) -> None:
        """`quotas` limit the replication of throttled replicas; without them nothing is limited."""
        self.quotas = quotas or ReplicationQuotas.unlimited()
        self.logs = logs
        logs.files.open_files.serve_this_thread()
        self._group_commit = group_commit
        self._blocking = blocking
        """Runs a function in a worker thread."""
        self._mover = mover
        self._waiters = waiters
        self._node_id = node_id
        self._defaults = dict(defaults)
        """The topic settings that follow from this broker's settings; a topic's settings override them."""
        self._default_config = LogConfig.from_mapping(defaults)
        self._sync = sync
        self._clustered = clustered
        self._image = MetadataImage()
        """The image that was applied last."""
        self._on_leadership: list[LeadershipCallback] = []
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._to_delete: list[TopicPartition] = []
        """The deleted partitions whose logs are still to be deleted."""
        self._to_delete_later: list[TopicPartition] = []
        """Those of them whose log directory is stuck."""
        self._unavailable: dict[tuple[str, int], ErrorCode] = {}
        """The partitions assigned to this broker whose logs cannot be opened."""
        self._to_reopen: dict[TopicPartition, bool] = {}
        """Those of them that lack only room or a descriptor now, each with whether it is new."""
        self.on_room: Callable[[], None] = lambda: None
        """In a cluster, called after logs that lacked room or a descriptor could be opened."""
        self._has_opened_again = False
        """Whether to call `on_room`."""
        self.new_logs = asyncio.Event()
        """Whether there are logs whose files must be created."""
        self._lacks_room = False
        """Whether the log says that there is no room for the files of new logs."""

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def partition(self, topic: str, index: int) -> Partition:
        """The partition, which may be offline.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER, only other brokers have it; or
                KAFKA_STORAGE_ERROR, its log cannot be opened.
        """
        partition = self._partitions.get((topic, index))
        if partition is not None:
            return partition
        error = self._unavailable.get((topic, index))
        if error is None:
            is_known = self._clustered and self._image.partition(topic, index) is not None
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(error)

    async def prepare(self, old: MetadataImage, new: MetadataImage) -> None:
        """Create the logs of new partitions before `apply` would, some at a time.

        Requests are handled in between.
        """
        made = 0
        if self._clustered:
            return
        for name in new.changed_topics(old):
            topic, before = new.topics.get(name), old.topics.get(name)
            if topic is None or (before is not None and before.id != topic.id):
                continue
            config = self.log_config(topic.configs)
            for index in range(0 if before is None else len(before.partitions), len(topic.partitions)):
                key = TopicPartition(name, index)
                if self._node_id in topic.partitions[index].replicas and key not in self.logs.moves.copies:
                    with contextlib.suppress(KafkaError):  # `apply` tries again and reports the error
                        self.logs.create(key, topic.id, config)
                    made += 1
                    if made % MANY_PARTITIONS == 0:
                        await asyncio.sleep(0)

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Create, delete and configure the hosted partitions as in `new`."""
        self._image = new
        if self._clustered:
            for name in new.changed_topics(old):
                if (topic := new.topics.get(name)) is not None:
                    self._apply_in_cluster(topic, old.topics.get(name))
            if old.brokers.keys() - new.brokers.keys():
                self._advance_all()
            return
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
        """Apply changed broker defaults of topic settings at once."""
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
        """Take the partitions of a failed log directory offline."""
        self._mover.log_directory_failed(log_directory)
        for partition in self._partitions.values():
            if not partition.offline and partition.log.log_directory is log_directory:
                partition.close(error.code)

    def reopen(self, image: MetadataImage) -> bool:
        """Open some of the partitions that lacked room; return whether to call again at once.

        The first failure ends the attempt: the other partitions would fail for the same reason. In a cluster
        only their logs are opened. They wait for a role, which the controller gives them when it is told.
        """
        if self._clustered:
            return self._open_logs_again(image)
        for key in list(self._to_reopen)[:REOPENED_AT_ONCE]:
            topic, index = image.topics[key.topic], key.partition
            epoch, config = topic.partitions[index].leader_epoch, self.log_config(topic.configs)
            self._open(topic, index, epoch, config, new=self._to_reopen[key])
            if key not in self._partitions:
                return False
            del self._unavailable[key], self._to_reopen[key]
            if not self._to_reopen:
                logger.info("The partitions that were offline for lack of resources are online again.")
        return bool(self._to_reopen)

    def _open_logs_again(self, image: MetadataImage) -> bool:
        """Open some of the logs that lacked room; return whether to call again at once."""
        for key in list(self._to_reopen)[:REOPENED_AT_ONCE]:
            new, topic, index = self._to_reopen.pop(key), image.topics.get(key.topic), key.partition
            if topic is None or index >= len(topic.partitions):
                continue
            if self._node_id not in topic.partitions[index].replicas:
                continue
            try:
                self._open_log(key, topic.id, self.log_config(topic.configs), new=False)
            except TransientStorageError:
                self._to_reopen[key] = new  # at the end: others may be in another directory
                break
            except KafkaError as error:
                logger.error("%s stays offline: %s", key, error)
            else:
                self._has_opened_again = True
        else:
            if self._to_reopen:
                return True
        if self._has_opened_again:
            self._has_opened_again = False
            logger.info("Replicas that were offline for lack of resources can take their roles.")
            self.on_room()
        return False

    # --- in a cluster ---------------------------------------------------------------------------------------

    def on_leadership(self, callback: LeadershipCallback) -> None:
        """Call `callback` after this broker has begun or ceased to lead, or got a new leader epoch."""
        self._on_leadership.append(callback)

    def tell_leadership(self, partition: Partition, *, leads: bool) -> None:
        """Call the callbacks of `on_leadership`."""
        topic, index = partition.topic_partition
        for callback in self._on_leadership:
            try:
                callback(topic, index, leads, partition.leader_epoch)
            except Exception:
                logger.exception("A callback for the leadership of %s failed", partition.topic_partition)

    def find(self, key: TopicPartition) -> Partition | None:
        """The partition, which may be offline; None if it is not hosted."""
        return self._partitions.get(key)

    def topic_id(self, key: TopicPartition) -> Uuid | None:
        """The topic id of a replica, hosted or not; None if there is no replica.

        It is ZERO_UUID if the replica has none.
        """
        partition = self._partitions.get(key)
        if partition is not None:
            return partition.topic_id or ZERO_UUID
        log = self.logs.logs.get(key)
        return None if log is None else log.topic_id or ZERO_UUID

    def host(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        configs: Mapping[str, str],
        *,
        new: bool,
        refilled: bool = False,
    ) -> Partition:
        """The partition, opened without a role if it is not hosted yet.

        `configs` are the topic's own settings. `new` says that there cannot be a log yet, `refilled` that a
        lost one will be fetched from the leader.

        Raises:
            KafkaError: the log cannot be opened; `cannot_serve` notes that.
        """
        partition = self._partitions.get(key)
        if partition is not None:
            partition.require_online()
            return partition
        config = self.log_config(configs)
        partition = self._add(key, topic_id, config, Unassigned(), new=new, refilled=refilled)
        self._unavailable.pop(key, None)
        self._to_reopen.pop(key, None)
        if self.logs.without_files(1):
            self.new_logs.set()
        return partition

    def cannot_serve(self, key: TopicPartition, error: KafkaError) -> None:
        """Let a partition be offline that could not be opened or could not take its role.

        The next request of the controller tries both again. If only room or a descriptor is lacking, the
        controller is told when that has changed (`on_room`).
        """
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
            self.tell_leadership(partition, leads=False)
        self._unavailable[key] = ErrorCode.KAFKA_STORAGE_ERROR
        self._to_reopen.pop(key, None)
        if isinstance(error, TransientStorageError):
            self._to_reopen[key] = False

    def stop_hosting(self, key: TopicPartition) -> None:
        """Do not serve a partition any more; its log stays."""
        self._unavailable.pop(key, None)
        self._to_reopen.pop(key, None)
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def delete(self, key: TopicPartition) -> None:
        """Delete a partition and its log, or a log that is not hosted; `settle` puts that on disk.

        Raises:
            StorageError: the disk failed.
        """
        self._unavailable.pop(key, None)
        self._to_reopen.pop(key, None)
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._mover.deleted(key)
        self.logs.delete(key)

    def _apply_in_cluster(self, topic: Topic, before: Topic | None) -> None:
        """Apply a topic's settings, and the states of the partitions that this broker leads."""
        if before is None or before.configs != topic.configs:
            self._configure(topic)
        for index, state in enumerate(topic.partitions):
            partition = self._partitions.get((topic.name, index))
            if partition is None or partition.topic_id != topic.id:
                continue
            role = partition.replication
            if not isinstance(role, Leader):
                continue
            if state.leader_epoch == role.leader_epoch:
                role.update(state)
            elif state.leader_epoch > role.leader_epoch and self._node_id not in state.replicas:
                self._moved_away(partition)

    def _moved_away(self, partition: Partition) -> None:
        """Lead a partition no more that is not assigned to this broker any more.

        If its registration was gone when that happened, the controller did not ask it to stop, and will not:
        it would still answer readers from its old log. If not, StopReplica comes and deletes the log.
        """
        logger.info(
            "%s has moved away from this broker, which led it in epoch %d: %s",
            *(partition.topic_partition, partition.leader_epoch, partition.log.path),
        )
        self.stop_hosting(partition.topic_partition)
        self.tell_leadership(partition, leads=False)

    def _advance_all(self) -> None:
        """Move the high watermarks that have waited for a broker to join, which is gone.

        Producers that have all their requests in flight append nothing more, which would do the same.
        """
        for partition in self._partitions.values():
            if partition.log.high_watermark < partition.log.log_end_offset:
                partition.advance()

    # --- without a cluster ----------------------------------------------------------------------------------

    def drop_stray_copies(self) -> None:
        """Delete the copies of partitions whose topics were deleted.

        In a cluster the controller does.
        """
        if self._clustered:
            return
        for topic_partition in list(self.logs.moves.copies):
            if topic_partition not in self._partitions and topic_partition not in self._unavailable:
                self._mover.deleted(topic_partition)

    def report_orphans(self) -> None:
        """Log a warning about logs that belong to no topic.

        Their directory was offline when the topic was deleted, or somebody copied them there. In a cluster
        the controller tells later which logs belong to a topic.
        """
        if self._clustered:
            return
        known = self._partitions.keys() | self._unavailable.keys()
        orphans = [log for topic_partition, log in self.logs.logs.items() if topic_partition not in known]
        if orphans:
            logger.warning(
                "%d logs (%s bytes) belong to no topic of this cluster and are not served: %s%s. They stay as"
                " they are; if a topic of the name is created they are set aside (-stray). To delete them,"
                " remove the directories.",
                *(len(orphans), f"{sum(log.size for log in orphans):,}"),
                *(", ".join(log.path for log in orphans[:NAMED]), ", …" * (len(orphans) > NAMED)),
            )

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition is assigned to this broker and its log failed or cannot be opened."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return (topic, index) in self._unavailable
        return partition.offline == ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def any_offline(self) -> bool:
        """Whether there may be a partition that is offline."""
        return bool(self._unavailable or self.logs.offline_dirs)

    def close(self) -> None:
        """Answer all waiting requests with NOT_LEADER_OR_FOLLOWER."""
        for partition in self._partitions.values():
            partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _new_from(self, topic: Topic, before: Topic | None, is_first: bool) -> int:
        """The index from which on the partitions of `topic` are new.

        New partitions have no logs in any directory. Partitions in the first image, and those of adopted
        topics, existed before.
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
                    partition.replicate(SoleReplica(state.leader_epoch))
                    self.tell_leadership(partition, leads=True)
            elif self._node_id in state.replicas:
                self._open(topic, index, state.leader_epoch, config, new=index >= new_from)
        if before is not None and before.configs != topic.configs:
            self._configure(topic)

    def _open(self, topic: Topic, index: int, leader_epoch: int, config: LogConfig, *, new: bool) -> None:
        topic_partition = TopicPartition(topic.name, index)
        try:
            partition = self._add(topic_partition, topic.id, config, SoleReplica(leader_epoch), new=new)
        except TransientStorageError as error:
            if not self._to_reopen:
                logger.error(
                    "%s-%d, and maybe others, are offline until there is room: %s", *topic_partition, error
                )
            self._unavailable[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            self._to_reopen.pop(topic_partition, None)
            self._to_reopen[topic_partition] = new  # at the end: others may be in another directory
            return
        except (StorageError, KafkaError) as error:
            logger.error("%s-%d stays offline: %s", topic.name, index, error)
            self._unavailable[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            self._to_reopen.pop(topic_partition, None)
        else:
            self.tell_leadership(partition, leads=True)

    def _add(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        replication: Replication,
        *,
        new: bool,
        refilled: bool = False,
    ) -> Partition:
        """Open the log of a partition and serve it.

        Raises:
            StorageError: the log cannot be opened.
        """
        log = self._open_log(key, topic_id, config, new=new, refilled=refilled)
        log.config = config
        # Share one name and one id, to save the memory of thousands of copies.
        if log.topic_id == topic_id:
            log.topic_id = topic_id
        partition = self._partitions[log.topic_partition] = Partition(
            log,
            replication=replication,
            group_commit=self._group_commit,
            waiters=self._waiters,
            sync=self._sync,
        )
        self._mover.opened(partition)
        return partition

    def _open_log(
        self, key: TopicPartition, topic_id: Uuid, config: LogConfig, *, new: bool, refilled: bool = False
    ) -> PartitionLog:
        """The log of a partition, which is new if there is none.

        Raises:
            StorageError: the log cannot be opened.
        """
        if key in self.logs.moves.copies:
            self.logs.moves.promote(key, topic_id)
        log = self.logs.create(key, topic_id, config, new=new, refilled=refilled)
        log.log_directory.require_online()
        return log

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
            self._to_reopen.pop(key, None)
            partition = self._partitions.pop(key, None)
            if partition is not None:
                partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                self.tell_leadership(partition, leads=False)
            self._mover.deleted(key)
            self._to_delete.append(key)

    def _delete_logs(self, count: int) -> None:
        stuck = []
        for key in self._to_delete[-count:]:
            if key in self._partitions or key in self._unavailable:
                continue  # created anew meanwhile, which has set the old log aside
            try:
                self.logs.delete(key)
            except StuckError:
                stuck.append(key)
            except StorageError as error:
                # A later start recognises the log by its topic id as that of a deleted topic.
                logger.error("%s-%d is deleted, but its files stay: %s", *key, error)
        del self._to_delete[-count:]
        self._to_delete_later += stuck

    async def make_files(self) -> None:
        """Create the files of new logs, in a worker thread, until there is no more room."""
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

    async def delete_rest(self) -> None:
        """Delete the logs of deleted topics whose log directory was stuck."""
        if self._to_delete_later:
            self._to_delete += self._to_delete_later
            self._to_delete_later = []
            await self.settle()

    def look_at_flushes(self) -> None:
        """Note which log directories are stuck, and which are not any more."""
        self._group_commit.look()
        for directory in self.logs.directories:
            if directory.is_stuck:
                directory.takes_writes()

    async def settle(self) -> None:
        """Delete the logs of large deleted topics in steps, and sync all deletions.

        Requests are handled in between. Only then may the topics be removed from the metadata. A log in a
        stuck directory stays until `delete_rest`: other changes of metadata would wait as well. A start that
        comes first recognises it by its topic id.
        """
        while self._to_delete:
            self._delete_logs(min(MANY_PARTITIONS, len(self._to_delete)))
            await asyncio.sleep(0)
        await self._blocking(self.logs.sync_deletions())
