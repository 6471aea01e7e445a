"""The partitions of this broker: hosted, configured, closed and deleted.

Others decide which partitions there are and which role they have: the controller by its requests
(controller_requests.py), or the metadata itself if the broker is alone (sole_roles.py). A new metadata image
brings settings, and the state of the partitions that this broker leads, or led before they moved away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.leader import IsrChanges, Leader
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replication import Replication, Unassigned
from kafkapy.replicas.replication_quota import ReplicationQuotas
from kafkapy.replicas.topic_traffic import Traffic
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import StorageError, TransientStorageError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.new_log import make_files
from kafkapy.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from kafkapy.replicas.fetch_rates import FetchRates

FILES_AT_ONCE: Final = 20
"""How many logs get their files in one call of a worker thread, which a stop of the broker waits for."""

REOPENED_AT_ONCE: Final = 10
"""How many partitions are reopened in one turn of the event loop."""

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
        quotas: ReplicationQuotas | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """`quotas` limit the replication of throttled replicas; without them nothing is limited.

        `traffic` counts what goes in and out; without it nothing is counted.
        """
        self.quotas = quotas or ReplicationQuotas.unlimited()
        self.traffic = traffic
        self.isr_changes = IsrChanges()
        self.fetch_rates: FetchRates | None = None
        """Those of the fetchers; None without a cluster."""
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
        self._last_config: tuple[Mapping[str, str], LogConfig] | None = None
        """The settings of a topic and what they mean: its partitions, which come together, share that."""
        self._sync = sync
        self._image = MetadataImage()
        """The image that was applied last."""
        self._on_leadership: list[LeadershipCallback] = []
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._unavailable: dict[tuple[str, int], ErrorCode] = {}
        """The partitions assigned to this broker whose logs cannot be opened."""
        self._to_reopen: dict[TopicPartition, bool] = {}
        """Those of them that lack only room or a descriptor now, each with whether it is new."""
        self.on_room: Callable[[], None] = lambda: None
        """Called by `reopen` after logs that lacked room or a descriptor could be opened."""
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
            is_known = self._image.partition(topic, index) is not None
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(error)

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Take over the settings of `new`, and the states of the partitions that this broker leads."""
        self._image = new
        for name in new.changed_topics(old):
            if (topic := new.topics.get(name)) is not None:
                self._apply_topic(topic, old.topics.get(name))
            elif self.traffic is not None:
                self.traffic.retire(name)
        if old.brokers.keys() - new.brokers.keys():
            self._advance_all()

    def set_defaults(self, defaults: Mapping[str, str], image: MetadataImage) -> None:
        """Apply changed broker defaults of topic settings at once."""
        self._defaults = dict(defaults)
        self._default_config = LogConfig.from_mapping(defaults)
        self._last_config = None
        for topic in image.topics.values():
            self._configure(topic)

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The effective settings of a topic that sets `overrides`."""
        if not overrides:
            return self._default_config
        if self._last_config is None or self._last_config[0] is not overrides:
            self._last_config = overrides, LogConfig.from_mapping({**self._defaults, **overrides})
        return self._last_config[1]

    def log_directory_failed(self, log_directory: LogDirectory, error: StorageError) -> None:
        """Take the partitions of a failed log directory offline."""
        self._mover.log_directory_failed(log_directory)
        for partition in self._partitions.values():
            if not partition.offline and partition.log.log_directory is log_directory:
                partition.close(error.code)

    @property
    def waiting_for_room(self) -> Mapping[TopicPartition, bool]:
        """The partitions that are offline for lack of room or a descriptor.

        Each has whether it is new.
        """
        return self._to_reopen

    def reopen(self, image: MetadataImage) -> bool:
        """Open some of the logs that lacked room; return whether to call again at once.

        The first failure ends the attempt: the others would fail for the same reason. The partitions wait for
        a role, which the controller gives them when it is told (`on_room`).
        """
        for key in list(self._to_reopen)[:REOPENED_AT_ONCE]:
            new, topic, index = self._to_reopen.pop(key), image.topics.get(key.topic), key.partition
            if topic is None or index >= len(topic.partitions):
                continue
            if self._node_id not in topic.partitions[index].replicas:
                continue
            try:
                self._open_log(key, topic.id, self.log_config(topic.configs), new=new)
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

    # --- roles ----------------------------------------------------------------------------------------------

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

    def lead(self, partition: Partition, role: Replication) -> None:
        """Lead a partition, in a new leader epoch.

        Raises:
            KafkaError: the log cannot be used.
        """
        partition.replicate(role)
        self.tell_leadership(partition, leads=True)

    def has(self, key: TopicPartition) -> bool:
        """Whether a partition is hosted, or would be if its log could be opened."""
        return key in self._partitions or key in self._unavailable

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

    def cannot_serve(self, key: TopicPartition, error: KafkaError, *, new: bool = False) -> None:
        """Let a partition be offline that could not be opened or could not take its role.

        The next request of the controller tries both again. If only room or a descriptor is lacking, it waits
        for that (`waiting_for_room`). `new` says that there cannot be a log yet.
        """
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
            self.tell_leadership(partition, leads=False)
        self._unavailable[key] = ErrorCode.KAFKA_STORAGE_ERROR
        self._to_reopen.pop(key, None)
        if isinstance(error, TransientStorageError):
            self._to_reopen[key] = new  # at the end: others may be in another directory

    def stop_hosting(
        self, key: TopicPartition, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER
    ) -> Partition | None:
        """Do not serve a partition any more, and answer with `error`; return it if it was hosted.

        Its log stays.
        """
        self._unavailable.pop(key, None)
        self._to_reopen.pop(key, None)
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.close(error)
        return partition

    def delete(self, key: TopicPartition) -> None:
        """Delete a partition and its log, or a log that is not hosted; `settle` puts that on disk.

        Raises:
            StorageError: the disk failed.
        """
        self.stop_hosting(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._mover.deleted(key)
        self.logs.delete(key)

    def _apply_topic(self, topic: Topic, before: Topic | None) -> None:
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
            partition.topic_partition,
            partition.leader_epoch,
            partition.log.path,
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

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition is assigned to this broker and its log failed or cannot be opened."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return (topic, index) in self._unavailable
        return partition.offline == ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def unavailable(self) -> int:
        """How many partitions are assigned to this broker whose logs cannot be opened."""
        return len(self._unavailable)

    @property
    def any_offline(self) -> bool:
        """Whether there may be a partition that is offline."""
        return bool(self._unavailable or self.logs.offline_dirs)

    def close(self) -> None:
        """Answer all waiting requests with NOT_LEADER_OR_FOLLOWER."""
        for partition in self._partitions.values():
            partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

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
            traffic=None if self.traffic is None else self.traffic.of(log.topic_partition.topic),
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

    def look_at_flushes(self) -> None:
        """Note which log directories are stuck, and which are not any more."""
        self._group_commit.look()
        for directory in self.logs.directories:
            if directory.is_stuck:
                directory.takes_writes()

    async def settle(self) -> None:
        """Sync all deletions."""
        await self._blocking(self.logs.sync_deletions())
