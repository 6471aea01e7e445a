"""The leader's part in the replication of a partition.

    in-sync replicas (ISR)    those that the controller knows to have every committed record
    maximal ISR               these, and those that are being added: a change may count already
    followers                 the other replicas that are assigned, or in the maximal ISR

A record is committed when every replica of the maximal ISR has it. So however the controller decides about a
change that is under way, a replica that it may elect has all committed records. The high watermark stays
where it is while the ISR is smaller than `min.insync.replicas` (KIP-966). It also waits for a replica that is
caught up and about to be added.

The assignment and the ISR are in two nodes of the metadata tree, which are not read at one moment. So the
image may show a replica in sync that it does not show as assigned, or not any more. That one counts too.

A leader proposes changes of the ISR to the controller (isr_changes.py), one at a time:

- Without a replica that has not been caught up for `replica.lag.time.max.ms`.
- Without a replica that fetches from below the high watermark: it has lost committed records, with its disk
  or by damage, and must not be elected. Apache Kafka leaves it in the ISR until it lags.
- With a replica that has reached the high watermark and the offset at which this leader's epoch began, if its
  broker is registered with the epoch that it fetches with.

After an error that leaves open what the controller knows, no more is proposed until the controller tells its
state: by LeaderAndIsr, or by the metadata tree.

A leader that is cut off from the controller, or was suspended, does not know that another broker leads. It
commits nothing, since the replicas in sync fetch from the other one. But it must not say either what only the
leader knows, such as that a sequence number is out of order: see `may_be_deposed`. Nor does a new leader know
that at once: see `may_miss_batches`.

Source: Partition (makeLeader, maybeExpandIsr, maybeShrinkIsr, maybeIncrementLeaderHW, handleAlterPartition*).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.remote_replica import NO_BROKER_EPOCH, Attendance, RemoteReplica
from kafkapy.replicas.replication import ALL_REPLICAS
from kafkapy.storage.damage.policy import SERVE_AROUND, DamagePolicy

if TYPE_CHECKING:
    from kafkapy.replicas.partition import Partition

_NOT_APPLIED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller has this leader's state, and did not apply the change."""

REFUSED_SECONDS: Final = 0.5
"""The pause after a change that was not applied, such as one with a broker that is about to stop."""

SILENT_SECONDS: Final = 2.0
"""A replica in sync fetches more often: every `replica.fetch.wait.max.ms`, half a second by default."""

IN_FLIGHT_SECONDS: Final = 60.0
"""How long a request may be in flight: librdkafka's default of `socket.timeout.ms`."""

_NOBODY: Final[Mapping[int, RemoteReplica]] = {}
"""The followers of the only replica. All share it: a broker may lead many thousands."""

_OUT_OF_DATE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller has another state than this leader, and will tell it."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class IsrChanges:
    """How often in-sync sets have changed that this broker leads."""

    shrinks: int = 0
    expands: int = 0


@dataclass(frozen=True, slots=True)
class LeaderParts:
    """The parts that all leaders of a broker share."""

    node_id: int
    now: Callable[[], float]
    """Seconds of the event loop's clock."""
    lag_seconds: Callable[[], float]
    """How long a replica in sync may be behind (`replica.lag.time.max.ms`)."""
    registered_epoch: Callable[[int], int | None]
    """The epoch with which a broker is registered; None if it is not live."""
    propose: Callable[[Proposal], None]
    """Sends a proposal to the controller, and calls `Leader.settle`."""
    isr_changes: IsrChanges = field(default_factory=IsrChanges)


class Proposal:
    """A change of the ISR that the controller is asked for."""

    __slots__ = ("isr", "leader", "members", "partition_epoch")

    def __init__(self, leader: Leader, isr: tuple[int, ...], members: list[tuple[int, int]]) -> None:
        self.leader = leader
        self.isr = isr
        self.members = members
        """The broker and its epoch, or NO_BROKER_EPOCH, for each member."""
        self.partition_epoch = leader.partition_epoch

    @property
    def is_open(self) -> bool:
        """Whether the leader still waits for an answer."""
        partition = self.leader.partition
        leads = partition.replication is self.leader and not partition.offline
        return leads and self.leader.proposal is self


class Leader:
    """The replication of a partition that this broker leads, for one leader epoch."""

    __slots__ = (
        "_began",
        "_followers",
        "_maximal_isr",
        "_others_may_have_more",
        "_parts",
        "_refused_until",
        "epoch_start_offset",
        "has_others",
        "isr",
        "leader_epoch",
        "partition",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    leads: Final = True

    def __init__(self, partition: Partition, state: PartitionState, parts: LeaderParts) -> None:
        """Begin to lead; `Partition.replicate` makes it count."""
        self.partition = partition
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.version
        """The version of the partition's state that the controller has."""
        self.isr: tuple[int, ...] = ()
        self.replicas = state.replicas
        self.proposal: Proposal | None = None
        """The change of the ISR that is under way, or whose outcome is not known."""
        self.epoch_start_offset = partition.log.log_end_offset
        self._refused_until = 0.0
        """The time until which fetches cause no further proposal, after one was refused."""
        self._parts = parts
        self._followers: Mapping[int, RemoteReplica] = _NOBODY
        """The other replicas by the ids of their brokers.

        What they had in an earlier leader epoch does not count, even if this broker led then: another broker
        may have led in between, and they may have replaced records.
        """
        self.has_others = False
        """Whether there are other replicas. An attribute, as it is asked for each batch."""
        self._maximal_isr: tuple[int, ...] = ()
        self._commit_isr(state.isr)
        # A reassignment may have removed the other replicas only now.
        self._others_may_have_more = self.has_others or partition.replication.may_miss_batches
        self._began = now = parts.now()
        for follower in self._followers.values():
            if follower.id in state.isr:
                follower.caught_up_at = now  # a replica in sync gets the full time of a lag to fetch

    # --- the role -------------------------------------------------------------------------------------------

    @property
    def damage_policy(self) -> DamagePolicy:
        """Serve the undamaged records: nobody has newer ones."""
        return SERVE_AROUND

    def require_leader(self) -> None:
        """Do nothing: this broker leads."""

    @property
    def may_be_deposed(self) -> bool:
        """Whether another broker may lead by now: a replica in sync has ceased to fetch."""
        silent = self._parts.now() - SILENT_SECONDS
        return any(each.id in self.isr and each.last_heard < silent for each in self._followers.values())

    @property
    def may_miss_batches(self) -> bool:
        """Whether a batch may come that follows one which this broker does not have any more.

        It may have appended that one in an earlier leader epoch, and have truncated it since, while the next
        ones of its producer were in flight. If there never was another replica, nothing can be elsewhere.
        """
        return self.may_be_deposed or (
            self._others_may_have_more and self._parts.now() - self._began < IN_FLIGHT_SECONDS
        )

    def update(self, state: PartitionState) -> bool:
        """Take over a state of this leader epoch from the controller; return whether it is news.

        One with a lower version is older and is ignored. A change of the ISR that is under way stays open
        until the version rises: the controller applies a proposal only to the version it was made for.
        """
        if state.version < self.partition_epoch:
            return False
        has_new_isr, has_new_replicas = state.version > self.partition_epoch, state.replicas != self.replicas
        if not has_new_isr and not has_new_replicas:
            return False
        self.replicas = state.replicas
        if has_new_isr:
            self.partition_epoch = state.version
            self._commit_isr(state.isr)
        else:
            self._follow()
        self.partition.advance()
        self.partition.wake()  # the sessions of followers have to note the replicas in sync
        return True

    def _commit_isr(self, isr: tuple[int, ...]) -> None:
        if self.isr:
            self._parts.isr_changes.shrinks += len(isr) < len(self.isr)
            self._parts.isr_changes.expands += len(isr) > len(self.isr)
        self.isr = isr
        self._maximal_isr = isr
        self.proposal = None
        self._follow()

    def _follow(self) -> None:
        """Keep what is known of the followers, and of nobody else."""
        others = {*self.replicas, *self._maximal_isr} - {self._parts.node_id}
        self.has_others = bool(others)
        known = self._followers
        self._followers = (
            {broker: known.get(broker) or RemoteReplica(broker) for broker in sorted(others)}
            if others
            else _NOBODY
        )

    # --- committing -----------------------------------------------------------------------------------------

    @property
    def min_insync(self) -> int:
        """How many replicas must be in sync: no more than there are (Partition.effectiveMinIsr)."""
        return min(self.partition.log.config.min_insync_replicas, len(self.replicas))

    def admit(self, acks: int) -> None:
        """Let batches be appended; those with acks=all only if enough replicas are in sync.

        Raises:
            KafkaError: NOT_ENOUGH_REPLICAS, too few are in sync.
        """
        if self.has_others and acks == ALL_REPLICAS and len(self.isr) < self.min_insync:
            raise self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS, len(self.isr))

    def require_in_sync(self) -> None:
        """Raise KafkaError if too few replicas are in sync: NOT_ENOUGH_REPLICAS_AFTER_APPEND.

        Those count too that are being added.
        """
        if self.has_others and len(self._maximal_isr) < self.min_insync:
            raise self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, len(self._maximal_isr))

    def _too_few(self, error: ErrorCode, count: int) -> KafkaError:
        partition = self.partition.topic_partition
        return KafkaError(error, f"{count} replicas of {partition} are in sync, too few.")

    def committed(self, ready: int) -> int:
        """The offset up to which every replica of the maximal ISR has the records."""
        if not self.has_others:
            return ready
        if len(self.isr) < self.min_insync:
            return 0
        end = ready
        for follower in self._followers.values():
            if follower.log_end_offset < end and (
                follower.id in self._maximal_isr or self._may_join(follower)
            ):
                end = follower.log_end_offset
        return end

    def _may_join(self, follower: RemoteReplica) -> bool:
        """Whether the high watermark waits for a replica, which otherwise might never reach it.

        It does not after the controller has refused one.
        """
        log_end, parts, now = self.partition.log.log_end_offset, self._parts, self._parts.now()
        return (
            now >= self._refused_until
            and follower.is_caught_up(log_end, now, parts.lag_seconds())
            and self._is_eligible(follower)
        )

    def low_watermark(self, log_start_offset: int) -> int:
        """The lowest log start offset of the live replicas."""
        starts = [
            follower.log_start_offset
            for follower in self._followers.values()
            if self._parts.registered_epoch(follower.id) is not None
        ]
        return min((log_start_offset, *starts))

    # --- followers ------------------------------------------------------------------------------------------

    def follower(self, broker: int, broker_epoch: int, *, knows_epoch: bool) -> RemoteReplica:
        """The replica on a broker that fetches.

        Raises:
            KafkaError: the broker is not one of this partition's (CVE-2018-1288): UNKNOWN_LEADER_EPOCH if its
                request has this leader's epoch, since this leader may not know the latest assignment yet;
                otherwise NOT_LEADER_OR_FOLLOWER, as when the broker has been registered anew since. All let
                it try again.
        """
        found = self._followers.get(broker)
        if found is None:
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(code, f"Broker {broker} has no replica of {self.partition.topic_partition}.")
        registered = self._parts.registered_epoch(broker)
        if broker_epoch != NO_BROKER_EPOCH and registered is not None and registered > broker_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Broker {broker} has been restarted.")
        return found

    def fetched(self, follower: RemoteReplica, offset: int, log_start_offset: int, broker_epoch: int) -> None:
        """Note a fetch of a follower from an offset that the log has."""
        partition, now = self.partition, self._parts.now()
        if follower.attends:
            # The request is not of the session that it attends. If it is an older one that comes late, that
            # session has to tell again what the follower has.
            partition.wake()
        moved = offset != follower.log_end_offset
        deleted = log_start_offset > follower.log_start_offset
        follower.fetched(
            offset,
            log_start_offset,
            broker_epoch,
            leader_end=partition.log.log_end_offset,
            now=now,
        )
        if self.proposal is None and now >= self._refused_until:
            if follower.id not in self.isr:
                self._expand(follower)
            elif offset < partition.log.high_watermark:
                self._shrink([follower.id])
        if moved:
            partition.advance()
        if deleted:
            partition.wake()

    def attendance(self) -> Attendance:
        """The notes of a new fetch session of a follower."""
        return Attendance(self._parts.now)

    def attend(self, follower: RemoteReplica, session: Attendance) -> bool:
        """Let a follower that has everything attend its session; False if it is not in the ISR.

        One that is not in the ISR has to be noted again, in order that it is proposed.
        """
        if follower.id not in self.isr or self._followers.get(follower.id) is not follower:
            return False
        follower.attend(session)
        return True

    def in_sync_with(self, offset: int) -> list[RemoteReplica]:
        """The other replicas in the ISR that have the offset, for readers."""
        return [
            each
            for each in self._followers.values()
            if each.id in self.isr and each.log_start_offset <= offset <= each.log_end_offset
        ]

    # --- changes of the ISR ---------------------------------------------------------------------------------

    def shrink(self) -> None:
        """Propose an ISR without the replicas that lag, if there are any."""
        if self.proposal is not None or self.partition.offline:
            return
        parts, end = self._parts, self.partition.log.log_end_offset
        now, lag = parts.now(), parts.lag_seconds()
        late = [
            broker
            for broker in self.isr
            if broker != parts.node_id
            and not ((known := self._followers.get(broker)) and known.is_caught_up(end, now, lag))
        ]
        if late:
            self._shrink(late)

    def _shrink(self, late: list[int]) -> None:
        log = self.partition.log
        isr = tuple(broker for broker in self.isr if broker not in late)
        logger.info(
            "Shrinking the ISR of %s from %s to %s: %s lag (high watermark %d, log end %d)",
            self.partition.topic_partition,
            list(self.isr),
            list(isr),
            late,
            log.high_watermark,
            log.log_end_offset,
        )
        self._propose(isr)

    def _expand(self, follower: RemoteReplica) -> None:
        """Propose an ISR with this replica if it is in sync."""
        log = self.partition.log
        offset = follower.log_end_offset
        if offset < log.high_watermark or offset < self.epoch_start_offset or self.partition.offline:
            return
        if self._is_eligible(follower):
            # The replica counts from now on: the controller may have elected it before the answer is here.
            self._maximal_isr = (*self._maximal_isr, follower.id)
            self._propose((*self.isr, follower.id))

    def _is_eligible(self, follower: RemoteReplica) -> bool:
        """Whether the broker that fetches is the one that is registered."""
        registered = self._parts.registered_epoch(follower.id)
        return registered is not None and follower.broker_epoch in (NO_BROKER_EPOCH, registered)

    def _propose(self, isr: tuple[int, ...]) -> None:
        own = self._parts.registered_epoch(self._parts.node_id)
        epochs = {each.id: each.broker_epoch for each in self._followers.values()}
        epochs[self._parts.node_id] = NO_BROKER_EPOCH if own is None else own
        members = [(broker, epochs.get(broker, NO_BROKER_EPOCH)) for broker in isr]
        self.proposal = Proposal(self, isr, members)
        self._parts.propose(self.proposal)

    def settle(self, proposal: Proposal, state: PartitionState) -> None:
        """Note what the controller has made of a proposal; `state` has its ISR, epochs and version."""
        if not proposal.is_open or state.leader_epoch != self.leader_epoch:
            return
        if state.version < self.partition_epoch:
            return
        logger.info(
            "The ISR of %s is %s, version %d",
            self.partition.topic_partition,
            list(state.isr),
            state.version,
        )
        self.partition_epoch = state.version
        self._commit_isr(state.isr)
        self.partition.advance()
        self.partition.wake()

    def refuse(self, proposal: Proposal, code: ErrorCode) -> bool:
        """Note that the controller has refused a proposal; return whether to send it again."""
        if not proposal.is_open:
            return False
        if code in _NOT_APPLIED:
            self._refused_until = self._parts.now() + REFUSED_SECONDS
            self._commit_isr(self.isr)
            self.partition.advance()
            return False
        if code in _OUT_OF_DATE:
            logger.info(
                "The ISR of %s waits for the controller: %s", self.partition.topic_partition, code.name
            )
            return False
        return True
