"""Fetches the records of partitions from the broker that leads them.

A fetcher is a task with a connection of its own. It sends one Fetch request after another, for all of its
partitions, and appends what the answers hold byte for byte:

    truncate    only for leaders before Fetch v12: ask where the epochs ended (OffsetForLeaderEpoch)
    fetch       from the end of each log, with the last epoch there. A leader that has other records answers
                where the logs diverge; the log is truncated there and the next request begins there
    append      the batches, then the leader's high watermark and log start offset
    sync        with durability=fsync, until the appends are on disk. The next request says so to the leader

An answer counts only if it is for the end of the log, and if the partition still has the role that it was
asked in: appends, truncations and changes of roles may have come in between.

A partition with an error is asked for again after `replica.fetch.backoff.ms`; the others are fetched. But a
leader that refuses may only not know yet that it leads, while producers wait for this replica. It is asked
again after 20 ms, then after 40, and so on. Apache Kafka waits all of the time at once.

A partition whose records take longer than SYNC_SECONDS to be synced is left out of the requests until they
are. So is a throttled one that is not in sync while the quota is exceeded (replication_quota.py).

A leader tells a high watermark once, even if the answer is not used because the partition has another role by
then. So a partition in a new role is first forgotten by the leader's session, and then asked for.

Of thousands of partitions only those cost something that change: a fetcher listens to them
(loop/waiters.py). Damage that a reader meets truncates a log, and retention moves its start.

Source: AbstractFetcherThread, ReplicaFetcherThread, RemoteLeaderEndPoint; KIP-101, KIP-279, KIP-595.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkapy.inter_broker.peers import Peer, PeerAddress, PeerError, Peers
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.protocol.records import LENGTH_AT, LOG_OVERHEAD
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST
from kafkapy.protocol.types import ZERO_UUID, ApiKey, TopicPartition
from kafkapy.replicas.fetch_rates import FetchRates
from kafkapy.replicas.fetch_session import FollowerSession, Wanted
from kafkapy.replicas.replication_quota import ReplicationQuota
from kafkapy.replicas.truncation import truncation
from kafkapy.storage.disk.errors import StorageError, TransientStorageError
from kafkapy.storage.log.epochs import UNDEFINED_EPOCH

if TYPE_CHECKING:
    from kafkapy.replicas.follower import Follower
    from kafkapy.replicas.partition import Partition

FIRST_VERSION_WITH_DIVERGENCE: Final = 12
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_REPLICA_STATE: Final = 15


SYNC_SECONDS: Final = 0.25
"""How long the next request waits for the syncs of what the last answer brought."""
SHORT_WAIT_MS: Final = 20
"""The longest that an answer may wait while a partition is left out of the requests for the moment."""

FIRST_BACKOFF_SECONDS: Final = 0.02
"""The pause before a leader that has refused is asked again for a partition, the first time."""
MOST_REFUSALS: Final = 16
"""After so many refusals the pause is that of the settings at the latest."""

THROTTLED_SECONDS: Final = 0.1
"""The pause before a partition is looked at again that the quota forbids to ask for."""

LOOKED_AT_AT_ONCE: Final = 1000
"""How many partitions are looked at in one turn of the event loop."""

APPENDED_AT_ONCE: Final = 512 << 10
"""After so many bytes other work of the event loop is done, which takes about a millisecond."""

logger = logging.getLogger(__name__)


class FetchSettings(NamedTuple):
    """The settings `replica.fetch.*` and `replica.socket.timeout.ms`: bytes and seconds."""

    min_bytes: int = 1
    wait_seconds: float = 0.5
    max_bytes: int = 1 << 20
    """Of one partition; a larger batch comes all the same."""
    response_max_bytes: int = 10 << 20
    backoff_seconds: float = 1.0
    timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class FetcherParts:
    """The parts that all fetchers of a broker share."""

    node_id: int
    peers: Peers
    address: Callable[[int], PeerAddress | None]
    """Where a broker listens for others; None while it is not registered."""
    broker_epoch: Callable[[], int]
    """The epoch with which this broker is registered."""
    settings: Callable[[], FetchSettings]
    now_ms: Callable[[], int]
    """The wall clock."""
    quota: ReplicationQuota
    rates: FetchRates = field(default_factory=FetchRates)


class _Fetched:
    """A partition that is fetched in one role; a listener to its changes."""

    __slots__ = ("_mark", "follower", "partition", "refusals", "truncates")

    def __init__(
        self, partition: Partition, follower: Follower, mark: Callable[[TopicPartition], None]
    ) -> None:
        self.partition = partition
        self.follower = follower
        self._mark = mark
        self.refusals = 0
        """How often the leader has refused since its last answer."""
        self.truncates = True
        """Whether a leader before Fetch v12 is still to be asked where its epochs ended."""

    @property
    def is_current(self) -> bool:
        """Whether the partition still has this role."""
        return self.partition.replication is self.follower

    def look(self) -> bool:
        """Ask for the partition anew, which has changed."""
        self._mark(self.partition.topic_partition)
        return False

    def expire(self) -> None:
        """Do nothing: this ends with the fetcher."""


class Fetcher:
    """Fetches some partitions from one broker."""

    def __init__(self, leader: int, name: str, parts: FetcherParts) -> None:
        self._leader = leader
        self._name = name
        self._parts = parts
        self._fetched: dict[TopicPartition, _Fetched] = {}
        self._changed: dict[TopicPartition, None] = {}
        """The partitions to ask for anew."""
        self._delayed: dict[TopicPartition, float] = {}
        """The partitions with an error, each with the time of the loop at which it is asked for again."""
        self._unready: dict[TopicPartition, None] = {}
        """The partitions that wait for their sync, or to be forgotten by the leader's session."""
        self.session = FollowerSession()
        """That of the leader, as far as this broker knows."""
        self._max_bytes = 0
        """The most bytes of one partition that the last request has asked for."""
        self._work = asyncio.Event()
        self.peer: Peer | None = None
        """The connection to the leader, once there is one."""
        self._version: int | None = None
        """The version of Fetch on this connection; None before it is known."""
        self._complained = False
        """Whether the log says that the leader cannot be reached."""
        loop = asyncio.get_running_loop()
        self._rate = parts.rates.begin(name, loop.time())
        self._task = loop.create_task(self._run(), name=name)

    def __len__(self) -> int:
        return len(self._fetched)

    def add(self, partition: Partition, follower: Follower) -> None:
        """Fetch a partition in this role, instead of an earlier one."""
        key = partition.topic_partition
        self._leave(key)
        fetched = self._fetched[key] = _Fetched(partition, follower, self._mark)
        partition.listen(fetched)
        self._delayed.pop(key, None)
        self._mark(key)

    def remove(self, key: TopicPartition) -> None:
        """Do not fetch a partition any more.

        An answer that is under way does not change it.
        """
        self._leave(key)
        self._delayed.pop(key, None)
        self._mark(key)

    def stop(self) -> asyncio.Task[None]:
        """Stop; return the task, which ends soon."""
        self._task.cancel()
        self._parts.rates.end(self._name, self._rate)
        for key in list(self._fetched):
            self._leave(key)
        return self._task

    def _leave(self, key: TopicPartition) -> None:
        fetched = self._fetched.pop(key, None)
        if fetched is not None:
            fetched.partition.forget(fetched)

    def _mark(self, key: TopicPartition) -> None:
        self._changed[key] = None
        self._work.set()

    def _delay(self, key: TopicPartition, seconds: float | None = None) -> None:
        """Ask for a partition again after some time, by default the backoff."""
        if key in self._fetched:
            backoff = self._parts.settings().backoff_seconds
            seconds = backoff if seconds is None else min(seconds, backoff)
            self._delayed[key] = asyncio.get_running_loop().time() + seconds
            self._mark(key)

    # --- the task -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._step()
                except (PeerError, KafkaError) as error:
                    self._failed(error)
                    await asyncio.sleep(self._parts.settings().backoff_seconds)
                except Exception as error:
                    logger.exception("%s failed; the broker tries again", self._name)
                    self._failed(error)
                    await asyncio.sleep(self._parts.settings().backoff_seconds)
        finally:
            self._disconnect()

    def _failed(self, error: Exception) -> None:
        if not self._complained and isinstance(error, (PeerError, KafkaError)):
            self._complained = True
            logger.warning(
                "Broker %d cannot be fetched from; the broker tries again: %s", self._leader, error
            )
        self.session.failed()
        self._disconnect()

    def _disconnect(self) -> None:
        if self.peer is not None:
            self.peer.close()
            self.peer = self._version = None

    def _connected(self) -> Peer:
        """The connection to the address that the leader has now.

        Raises:
            PeerError: the leader is not registered.
        """
        address = self._parts.address(self._leader)
        if address is None:
            raise PeerError(f"broker {self._leader} is not registered")
        if self.peer is not None and self.peer.address != address:
            self._disconnect()
            self.session.failed()
        if self.peer is None:
            self.peer = self._parts.peers.connect(address, self._name)
        return self.peer

    async def _step(self) -> None:
        """Send one request, and handle the answer."""
        if not self._fetched:
            await self._work.wait()
        self._work.clear()
        settings = self._parts.settings()
        peer = self._connected()
        version = self._version
        if version is None:
            version = self._version = await peer.version(ApiKey.FETCH)
        if version < FIRST_VERSION_WITH_DIVERGENCE:
            await self._truncate_by_epochs(peer, settings)
        request = await self._request(version, settings)
        if not self.session.sent and not request.forgotten_topics_data:
            await self._wait()
            return
        self._rate.fetched(asyncio.get_running_loop().time())
        response = await peer.ask(request, seconds=settings.timeout_seconds)
        self._complained = False
        code = self.session.answered(response)
        if code:
            logger.info("Broker %d has refused a fetch session: %s", self._leader, code.name)
            if not code.retriable:
                await asyncio.sleep(settings.backoff_seconds)
            return
        appended = await self._handle(peer, response, settings)
        if appended:
            await self._synced(appended)

    async def _wait(self) -> None:
        """Wait until there may be something to ask for."""
        timeout = self._seconds_of_delay()
        if self._unready:
            timeout = SHORT_WAIT_MS / 1000
        # Not wait_for: it loses a cancellation that comes together with the event (Python 3.11).
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._work.wait()

    def _seconds_of_delay(self) -> float | None:
        """The seconds until a delayed partition is asked for again; None without such a partition."""
        if not self._delayed:
            return None
        return max(min(self._delayed.values()) - asyncio.get_running_loop().time(), 0)

    async def _synced(self, appended: list[Partition]) -> None:
        """Wait until what was appended is on disk, if the durability setting demands that."""
        waits = [
            partition.watch_ready(SYNC_SECONDS)
            for partition in appended
            if not partition.offline and partition.ready_offset != partition.log.log_end_offset
        ]
        if waits:
            await asyncio.gather(*waits, return_exceptions=True)

    # --- requests -------------------------------------------------------------------------------------------

    async def _request(self, version: int, settings: FetchSettings) -> FetchRequest:
        """The next request, with what has changed since the last one."""
        wanted, unwanted = await self._partitions(version, settings)
        wait = settings.wait_seconds if not self._unready else SHORT_WAIT_MS / 1000
        if (delay := self._seconds_of_delay()) is not None:
            wait = min(wait, delay)
        request = FetchRequest(
            max_wait_ms=int(wait * 1000),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
        )
        if version >= FIRST_VERSION_WITH_REPLICA_STATE:
            epoch = self._parts.broker_epoch()
            request.replica_state = ReplicaState(replica_id=self._parts.node_id, replica_epoch=epoch)
        else:
            request.replica_id = self._parts.node_id
        self.session.fill(request, wanted, unwanted)
        return request

    async def _partitions(
        self, version: int, settings: FetchSettings
    ) -> tuple[dict[TopicPartition, Wanted], list[TopicPartition]]:
        """The partitions to ask for, and those to drop.

        A full request is about all partitions, others are about changed ones.
        """
        now = asyncio.get_running_loop().time()
        for key in [key for key, until in self._delayed.items() if until <= now]:
            del self._delayed[key]
            self._changed[key] = None
        if self._max_bytes != settings.max_bytes:
            self._max_bytes = settings.max_bytes
            self._changed |= dict.fromkeys(self._fetched)
        self._changed |= self._unready
        keys = list(self._fetched if self.session.is_full else self._changed)
        self._changed, self._unready = {}, {}
        wanted: dict[TopicPartition, Wanted] = {}
        unwanted = []
        for count, key in enumerate(keys, 1):
            if key not in self._delayed and (asked := self._wanted(key, version, settings)) is not None:
                wanted[key] = asked
            else:
                unwanted.append(key)
            if count % LOOKED_AT_AT_ONCE == 0:
                await asyncio.sleep(0)
        return wanted, unwanted

    def _wanted(self, key: TopicPartition, version: int, settings: FetchSettings) -> Wanted | None:
        """The request for a partition; None if it cannot take records now."""
        fetched = self._fetched.get(key)
        if fetched is None or not fetched.is_current or fetched.partition.offline:
            return None
        knows_divergence = version >= FIRST_VERSION_WITH_DIVERGENCE
        if fetched.truncates and not knows_divergence:
            return None
        log = fetched.partition.log
        before = None if self.session.is_full else self.session.sent.get(key)
        if before is not None and before.role is not fetched:
            self._unready[key] = None
            return None
        if fetched.partition.ready_offset != log.log_end_offset:
            self._unready[key] = None
            return None
        if self._is_held_back(key, fetched):
            self._delayed[key] = asyncio.get_running_loop().time() + THROTTLED_SECONDS
            return None
        has_id = version >= FIRST_VERSION_WITH_TOPIC_IDS and log.topic_id is not None
        return Wanted(
            log.topic_id if has_id and log.topic_id is not None else ZERO_UUID,
            log.log_end_offset,
            log.log_start_offset,
            settings.max_bytes,
            fetched.follower.leader_epoch,
            log.leader_epochs.latest_epoch if knows_divergence else UNDEFINED_EPOCH,
            fetched,
        )

    def _is_held_back(self, key: TopicPartition, fetched: _Fetched) -> bool:
        """Whether the quota forbids to ask for a partition; a replica in sync is always asked for."""
        quota, behind = self._parts.quota, fetched.follower.leader_high_watermark
        return fetched.partition.log.log_end_offset < behind and quota.is_exceeded and quota.throttles(key)

    # --- answers --------------------------------------------------------------------------------------------

    async def _handle(self, peer: Peer, response: FetchResponse, settings: FetchSettings) -> list[Partition]:
        """Handle each partition of an answer; return those that got records."""
        appended: list[Partition] = []
        nbytes = 0
        for topic in response.responses:
            name = topic.topic or self.session.names.get(topic.topic_id, "")
            for data in topic.partitions:
                key = TopicPartition(name, data.partition_index)
                fetched = self._fetched.get(key)
                if fetched is None:
                    continue
                if not self._is_expected(key, fetched):
                    self._mark(key)
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    await self._out_of_range(peer, key, fetched, settings)
                elif data.error_code:
                    self._refused(key, fetched, ErrorCode(data.error_code))
                elif self._take(key, fetched, data):
                    appended.append(fetched.partition)
                    nbytes += len(data.records) if isinstance(data.records, memoryview) else 0
                    if nbytes >= APPENDED_AT_ONCE:
                        nbytes = 0
                        await asyncio.sleep(0)
        return appended

    def _is_expected(self, key: TopicPartition, fetched: _Fetched) -> bool:
        """Whether an answer is for the present end of the log, in the present role."""
        asked = self.session.sent.get(key)
        return (
            asked is not None
            and fetched.is_current
            and asked.leader_epoch == fetched.follower.leader_epoch
            and asked.fetch_offset == fetched.partition.log.log_end_offset
        )

    def _take(self, key: TopicPartition, fetched: _Fetched, data: PartitionData) -> bool:
        """Append what an answer has for a partition; return whether it has records."""
        partition = fetched.partition
        try:
            if data.diverging_epoch.epoch >= 0:
                self._truncate(fetched, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
                self._mark(key)
                return False
            records = whole_batches(data.records)
            if records:
                self._append(partition, records)
                if self._parts.quota.is_limited and self._parts.quota.throttles(key):
                    self._parts.quota.record(len(records))
            fetched.refusals = 0
            fetched.follower.leader_high_watermark = data.high_watermark
            partition.advance()
            if partition.learn(data.log_start_offset) or records:
                self._mark(key)
            return bool(records)
        except StorageError as error:
            # The log directory logs a lack, once for all its partitions.
            level = logging.DEBUG if isinstance(error, TransientStorageError) else logging.ERROR
            logger.log(level, "%s cannot take its leader's records: %s", key, error.message)
        except KafkaError as error:
            logger.error("%s cannot take its leader's records, and fetches them again: %s", key, error)
        self._delay(key)
        return False

    def _append(self, partition: Partition, records: memoryview) -> None:
        log = partition.log
        first_offset = int.from_bytes(records[:8], "big")
        if first_offset < log.log_end_offset == log.log_start_offset:
            # The leader's log starts within this batch: records were deleted up to there.
            partition.truncate_fully_and_start_at(first_offset)
        partition.append_as_follower(records, now_ms=self._parts.now_ms())

    def _refused(self, key: TopicPartition, fetched: _Fetched, code: ErrorCode) -> None:
        """Handle the error of a partition."""
        level = logging.DEBUG if code.retriable else logging.ERROR
        logger.log(level, "Broker %d does not answer for %s yet: %s", self._leader, key, code.name)
        self._delay(key, FIRST_BACKOFF_SECONDS * 2**fetched.refusals if code.retriable else None)
        fetched.refusals = min(fetched.refusals + 1, MOST_REFUSALS)

    # --- truncation -----------------------------------------------------------------------------------------

    def _truncate(self, fetched: _Fetched, epoch: int, end_offset: int) -> bool:
        """Truncate a log where the leader's has other records; return whether that is all."""
        log = fetched.partition.log
        offset, complete = truncation(log, epoch, end_offset)
        below = f", below the high watermark {log.high_watermark}" if offset < log.high_watermark else ""
        logger.info(
            "Truncating %s from %d to %d%s: its leader's epoch %d ended at %d",
            log.topic_partition,
            log.log_end_offset,
            offset,
            below,
            epoch,
            end_offset,
        )
        fetched.partition.truncate_to(offset)
        return complete

    async def _truncate_by_epochs(self, peer: Peer, settings: FetchSettings) -> None:
        """Ask a leader that does not answer where logs diverge, and truncate."""
        asked: dict[TopicPartition, _Fetched] = {}
        request = OffsetForLeaderEpochRequest(replica_id=self._parts.node_id)
        for key, fetched in self._fetched.items():
            if not fetched.truncates or not fetched.is_current or key in self._delayed:
                continue
            epoch = fetched.partition.log.leader_epochs.latest_epoch
            if epoch == UNDEFINED_EPOCH:
                fetched.truncates = False
                continue
            asked[key] = fetched
            request.topics.append(
                OffsetForLeaderTopic(
                    topic=key.topic,
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=key.partition,
                            current_leader_epoch=fetched.follower.leader_epoch,
                            leader_epoch=epoch,
                        )
                    ],
                )
            )
        if not asked:
            return
        response = await peer.ask(request, seconds=settings.timeout_seconds)
        for topic in response.topics:
            for answer in topic.partitions:
                key = TopicPartition(topic.topic, answer.partition)
                now = asked.get(key)
                if now is None or self._fetched.get(key) is not now or not now.is_current:
                    continue
                if answer.error_code:
                    self._refused(key, now, ErrorCode(answer.error_code))
                    continue
                try:
                    now.truncates = not self._truncate(now, answer.leader_epoch, answer.end_offset)
                except KafkaError as error:
                    logger.error("%s cannot be truncated: %s", key, error)
                    self._delay(key)
                self._mark(key)

    async def _out_of_range(
        self, peer: Peer, key: TopicPartition, fetched: _Fetched, settings: FetchSettings
    ) -> None:
        """Find the offset to continue from, when the leader does not have the end of this log.

        The leader's log ends earlier after an unclean election. It starts later if this broker was away for
        long.
        """
        try:
            end = await self._leader_offset(peer, key, fetched, LATEST, settings)
            start = await self._leader_offset(peer, key, fetched, EARLIEST, settings)
            if self._fetched.get(key) is not fetched or not self._is_expected(key, fetched):
                return
            partition = fetched.partition
            own_end = partition.log.log_end_offset
            if end < own_end:
                logger.warning("Truncating %s from %d to %d, where its leader's log ends", key, own_end, end)
                partition.truncate_to(end)
            elif start > own_end:
                logger.warning(
                    "%s ends at %d; it begins anew at %d, where its leader's log starts", key, own_end, start
                )
                partition.truncate_fully_and_start_at(start)
            else:
                self._delay(key)
        except KafkaError as error:
            logger.info("The offsets of the leader of %s are not known yet: %s", key, error)
            self._delay(key)
        self._mark(key)

    async def _leader_offset(
        self, peer: Peer, key: TopicPartition, fetched: _Fetched, timestamp: int, settings: FetchSettings
    ) -> int:
        """The leader's log end offset or log start offset.

        Raises:
            KafkaError: the leader refuses.
        """
        wanted = ListOffsetsPartition(
            partition_index=key.partition,
            current_leader_epoch=fetched.follower.leader_epoch,
            timestamp=timestamp,
        )
        request: Any = ListOffsetsRequest(
            replica_id=self._parts.node_id,
            topics=[ListOffsetsTopic(name=key.topic, partitions=[wanted])],
        )
        response = await peer.ask(request, seconds=settings.timeout_seconds)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        offset: int = answer.offset
        return offset


def whole_batches(records: Any) -> memoryview | None:
    """The complete batches of an answer; None if there are none.

    Apache Kafka's answers may end within a batch.
    """
    if not records:
        return None
    data = memoryview(records)
    end, size = 0, len(data)
    while size - end >= LOG_OVERHEAD:
        length = int.from_bytes(data[end + LENGTH_AT : end + LOG_OVERHEAD], "big")
        if size - end - LOG_OVERHEAD < length:
            break
        end += LOG_OVERHEAD + length
    return data[:end] if end else None
