"""The coordinator on its log.

What is stored, when it is visible, and what a restart restores.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import NoReturn

import pytest

from kafkapy.coordination.partitioning import partition_of
from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.classic.records import encode_group_key, encode_group_value
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.group import Group
from kafkapy.groups.offsets.committed_offset import encode_offset
from kafkapy.loop.turns import take_turn
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.group_records import GroupMetadataValue, MemberMetadata
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.leave_group import MemberIdentity
from kafkapy.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkapy.protocol.types import TopicPartition, random_uuid
from tests.groups.classic_world import ClassicWorld, another_group, joining
from tests.groups.memory_log import coordinator

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DAY = 24 * 60 * 60


class OtherGroup(Group):
    """A group of some other type, with members."""

    protocol_type = "consumer"
    state_name = "Stable"
    is_abandoned = False

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int | None = None,
        *,
        in_transaction: bool = False,
    ) -> None:
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        pass

    def validate_offset_delete(self) -> None:
        pass

    def validate_delete(self) -> None:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed(self, topic: str) -> bool:
        return False

    def retention_start(self, commit_timestamp: int) -> int | None:
        return None

    def tombstone_keys(self) -> Sequence[bytes]:
        return ()

    def close(self, error: ErrorCode, now_ms: int) -> None:
        pass


class TestTheTopic:
    async def test_without_it_there_is_no_coordinator(self) -> None:
        cluster = ClassicWorld()
        cluster.groups.start()
        assert not cluster.groups.runtime.has_topic
        with pytest.raises(KafkaError) as refused:
            cluster.groups.runtime.require_active("g")
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    async def test_it_is_made_when_it_is_first_needed(self, cluster: ClassicWorld) -> None:
        assert cluster.groups.runtime.has_topic
        cluster.groups.runtime.require_active("g")

    async def test_while_it_is_read_clients_are_to_wait_but_heartbeats_count(
        self, cluster: ClassicWorld
    ) -> None:
        member_id = await cluster.join()
        await cluster.groups.stop()
        groups = cluster.coordinator = coordinator(cluster.log, cluster.clock, cluster.timers)
        groups.start()
        assert groups.runtime.is_loading
        with pytest.raises(KafkaError) as refused:
            groups.runtime.require_active("g")
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert cluster.heartbeat(member_id) is ErrorCode.NONE
        answer = groups.join_group("g", joining(member_id))
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await cluster.loaded()
        assert cluster.heartbeat(member_id) is ErrorCode.NONE

    @pytest.mark.parametrize(
        "error",
        [
            KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a disk"),
            OSError(errno.EIO, "a disk"),
            MemoryError(),
            RuntimeError("can't start new thread"),
            ZeroDivisionError("a mistake"),
        ],
        ids=lambda error: type(error).__name__,
    )
    async def test_a_partition_that_cannot_be_read_leaves_the_others_alone_and_is_read_again(
        self, cluster: ClassicWorld, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        elsewhere = another_group()
        cluster.commit((T0, 7), group=elsewhere)
        cluster.commit((T0, 5))
        member_id = await cluster.join()
        kept = cluster.log.batches[partition_of(elsewhere, 4)][:]
        cluster.log.batches[partition_of(elsewhere, 4)].clear()
        cluster.log.unreadable = error
        await cluster.restart()
        assert not cluster.groups.runtime.is_loading, "ListGroups would answer for no group at all"
        with pytest.raises(KafkaError) as refused:
            cluster.groups.runtime.require_active("g")
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert f"__consumer_offsets-{partition_of('g', 4)} is unavailable" in caplog.text
        if not isinstance(error, KafkaError):
            cluster.groups.runtime.require_active(elsewhere)
        cluster.log.batches[partition_of(elsewhere, 4)] = kept
        cluster.log.unreadable = None
        await cluster.time_passes(1)
        cluster.groups.runtime.require_active("g")
        assert cluster.committed() == {T0: 5}
        assert cluster.heartbeat(member_id) is ErrorCode.NONE

    async def test_a_group_that_cannot_be_restored_keeps_its_offsets_and_leaves_the_others_alone(
        self, cluster: ClassicWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = next(f"g{n}" for n in range(100) if partition_of(f"g{n}", 4) == partition_of("g", 4))
        member_id = await cluster.join(group=other)
        cluster.commit((T0, 5))
        without_protocol = GroupMetadataValue(
            protocol_type="consumer", protocol=None, leader="m", members=[MemberMetadata(member_id="m")]
        )
        cluster.write("g", encode_group_key("g"), encode_group_value(without_protocol))
        await cluster.restart()
        cluster.groups.runtime.require_active("g")
        assert cluster.groups.groups.keys() == {"g", other}
        assert cluster.heartbeat(member_id, other) is ErrorCode.NONE
        assert cluster.committed() == {T0: 5}
        assert "Group g cannot be restored and starts empty: group g has members but no protocol" in (
            caplog.text
        )
        await cluster.join()

    async def test_a_lack_of_memory_loses_no_group(
        self, cluster: ClassicWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> NoReturn:
            raise MemoryError

        member_id = await cluster.join()
        with monkeypatch.context() as patch:
            patch.setattr("kafkapy.groups.coordinator.restore_group", fail)
            await cluster.restart()
            assert cluster.heartbeat(member_id) is ErrorCode.NOT_COORDINATOR
        await cluster.time_passes(1)
        assert cluster.heartbeat(member_id) is ErrorCode.NONE

    async def test_a_partition_that_stays_unreadable_is_read_ever_more_seldom_and_logged_once(
        self, cluster: ClassicWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster.commit((T0, 5))
        cluster.log.unreadable = OSError(errno.EIO, "a disk")
        await cluster.restart()
        for _ in range(60):
            await cluster.time_passes(1)
        assert cluster.log.reads == 1 + len([1, 3, 7, 15, 31]), "and the next after 61 s"
        assert len([each for each in caplog.records if "is unavailable" in each.message]) == 1
        cluster.log.unreadable = None
        await cluster.time_passes(30)
        assert cluster.committed() == {T0: 5}

    async def test_a_topic_that_is_deleted_is_not_read_again(self, cluster: ClassicWorld) -> None:
        cluster.commit((T0, 5))
        cluster.log.unreadable = OSError(errno.EIO, "a disk")
        await cluster.restart()
        reads = cluster.log.reads
        cluster.groups.metadata_changed(MetadataImage().with_topics([cluster.log.entry()]), MetadataImage())
        await cluster.time_passes(60)
        assert cluster.log.reads == reads

    async def test_deleting_it_ends_all_groups(self, cluster: ClassicWorld) -> None:
        waiting = cluster.groups.join_group("g", joining())
        cluster.groups.metadata_changed(MetadataImage().with_topics([cluster.log.entry()]), MetadataImage())
        assert isinstance(waiting, asyncio.Future)
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert not cluster.groups.runtime.has_topic
        assert not cluster.groups.groups

    async def test_a_partition_that_cannot_be_written_gives_its_groups_up_until_it_is_read_again(
        self, cluster: ClassicWorld
    ) -> None:
        elsewhere = another_group()
        cluster.commit((T0, 7), group=elsewhere)
        cluster.commit((T0, 3))
        member_id = await cluster.join()
        waiting = cluster.groups.join_group("g", joining())
        cluster.log.error = ErrorCode.KAFKA_STORAGE_ERROR
        cluster.groups.writes.commit("g", {T0: encode_offset(5, -1, "", 0)})
        cluster.timers.advance(0)
        assert isinstance(waiting, asyncio.Future)
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert cluster.heartbeat(member_id) is ErrorCode.NOT_COORDINATOR
        assert cluster.committed(elsewhere) == {T0: 7}
        cluster.groups.runtime.require_active(elsewhere)
        cluster.log.error = ErrorCode.NONE
        await cluster.time_passes(1)
        assert cluster.committed() == {T0: 3}
        assert cluster.heartbeat(member_id) is ErrorCode.NONE


class TestCommits:
    async def test_a_commit_is_seen_when_it_is_in_the_log(self, cluster: ClassicWorld) -> None:
        cluster.log.hold = True
        answers = cluster.commit((T0, 5))
        assert answers == []
        assert cluster.committed() == {}
        cluster.log.release()
        assert answers == [ErrorCode.NONE]
        assert cluster.committed() == {T0: 5}

    async def test_a_commit_that_fails_leaves_the_one_before(self, cluster: ClassicWorld) -> None:
        cluster.commit((T0, 5))
        cluster.log.hold = True
        answers = cluster.commit((T0, 6))
        cluster.log.release(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert cluster.committed() == {T0: 5}

    async def test_the_last_commit_wins(self, cluster: ClassicWorld) -> None:
        cluster.log.hold = True
        cluster.commit((T0, 5))
        cluster.commit((T0, 4))
        cluster.log.release()
        cluster.log.release()
        assert cluster.committed() == {T0: 4}

    @pytest.mark.parametrize(
        ("failure", "told"),
        [
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
            (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        ],
    )
    async def test_a_client_is_told_what_it_can_do_about_a_failed_write(
        self, cluster: ClassicWorld, failure: ErrorCode, told: ErrorCode
    ) -> None:
        cluster.log.error = failure
        assert cluster.commit((T0, 5)) == [told]

    async def test_a_group_of_thousands_of_partitions_is_written_in_several_batches(
        self, cluster: ClassicWorld
    ) -> None:
        offsets = [(TopicPartition("t" * 200, index), index) for index in range(5_000)]
        assert cluster.commit(*offsets) == [ErrorCode.NONE]
        assert sum(map(len, cluster.log.batches)) > 1
        await cluster.restart()
        assert cluster.committed() == dict(offsets)

    async def test_a_commit_of_which_a_part_fails_is_seen_as_far_as_a_restart_would(
        self, cluster: ClassicWorld
    ) -> None:
        cluster.log.hold = True
        offsets = [(TopicPartition("t" * 200, index), index) for index in range(5_000)]
        answers = cluster.commit(*offsets)
        cluster.log.release()
        while not answers:
            cluster.log.release(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        seen = cluster.committed()
        assert 0 < len(seen) < len(offsets)
        cluster.log.hold = False
        await cluster.restart()
        assert cluster.committed() == seen

    async def test_a_commit_that_outlives_the_topic_changes_nothing(self, cluster: ClassicWorld) -> None:
        cluster.log.hold = True
        answers = cluster.commit((T0, 5))
        cluster.groups.metadata_changed(MetadataImage().with_topics([cluster.log.entry()]), MetadataImage())
        cluster.log.release()
        assert answers == [ErrorCode.NONE]
        assert cluster.committed() == {}

    async def test_a_restart_brings_back_every_offset(self, cluster: ClassicWorld) -> None:
        for number in range(20):
            cluster.commit((T0, number), (T1, number * 2), group=f"g{number}")
        await cluster.restart()
        for number in range(20):
            assert cluster.committed(f"g{number}") == {T0: number, T1: number * 2}
            assert cluster.groups.groups[f"g{number}"].protocol_type is None

    async def test_a_member_commits_with_its_generation_only(self, cluster: ClassicWorld) -> None:
        member_id = await cluster.join()
        cluster.groups.check_commit("g", member_id, None, 1)
        for arguments, error in [
            ((member_id, None, 2), ErrorCode.ILLEGAL_GENERATION),
            (("nobody", None, 1), ErrorCode.UNKNOWN_MEMBER_ID),
            (("", None, -1), ErrorCode.UNKNOWN_MEMBER_ID),
            ((member_id, "i", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        ]:
            with pytest.raises(KafkaError) as refused:
                cluster.groups.check_commit("g", *arguments)
            assert refused.value.code is error

    async def test_a_commit_of_a_group_that_does_not_exist_needs_no_generation(
        self, cluster: ClassicWorld
    ) -> None:
        with pytest.raises(KafkaError) as refused:
            cluster.groups.check_commit("g", "m", None, 4)
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert "g" not in cluster.groups.groups

    async def test_a_commit_is_a_sign_of_life(self, cluster: ClassicWorld) -> None:
        member_id = await cluster.join()
        for _ in range(5):
            cluster.timers.advance(9)
            cluster.groups.check_commit("g", member_id, None, 1)
        assert cluster.heartbeat(member_id) is ErrorCode.NONE

    async def test_between_the_generations_a_member_is_sent_to_rejoin(self, cluster: ClassicWorld) -> None:
        waiting = cluster.groups.join_group("g", joining())
        cluster.timers.advance(0.1)
        assert isinstance(waiting, asyncio.Future)
        member_id = (await waiting).member_id
        with pytest.raises(KafkaError) as refused:
            cluster.groups.check_commit("g", member_id, None, 1)
        assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS


class TestDeletion:
    async def test_a_deleted_group_and_its_offsets_are_gone_for_good(self, cluster: ClassicWorld) -> None:
        member_id = await cluster.join()
        cluster.groups.leave_group("g", [MemberIdentity(member_id=member_id)])
        cluster.commit((T0, 5))
        answers: list[ErrorCode] = []
        take_turn(cluster.groups.delete_group("g", answers.append))
        assert answers == [ErrorCode.NONE]
        assert "g" not in cluster.groups.groups
        assert cluster.committed() == {}
        await cluster.restart()
        assert "g" not in cluster.groups.groups
        assert cluster.committed() == {}

    async def test_a_group_whose_deletion_fails_is_still_there(self, cluster: ClassicWorld) -> None:
        member_id = await cluster.join()
        cluster.groups.leave_group("g", [MemberIdentity(member_id=member_id)])
        cluster.commit((T0, 5))
        cluster.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        answers: list[ErrorCode] = []
        take_turn(cluster.groups.delete_group("g", answers.append))
        assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert cluster.groups.require_classic_group("g").generation == 2
        assert cluster.committed() == {T0: 5}
        cluster.log.error = ErrorCode.NONE
        take_turn(cluster.groups.delete_group("g", answers.append))
        assert answers[1:] == [ErrorCode.NONE]
        assert "g" not in cluster.groups.groups

    async def test_a_group_that_is_deleted_keeps_no_timer_of_ids_it_handed_out(
        self, cluster: ClassicWorld
    ) -> None:
        timers = cluster.timers.pending
        waiting = cluster.groups.join_group("g", joining(version=4))
        assert isinstance(waiting, JoinGroupResponse)
        assert waiting.error_code == ErrorCode.MEMBER_ID_REQUIRED
        take_turn(cluster.groups.delete_group("g", lambda _: None))
        assert cluster.timers.pending == timers

    async def test_a_group_with_members_stays(self, cluster: ClassicWorld) -> None:
        await cluster.join()
        with pytest.raises(KafkaError) as refused:
            take_turn(cluster.groups.delete_group("g", lambda _: None))
        assert refused.value.code is ErrorCode.NON_EMPTY_GROUP

    async def test_a_commit_that_was_on_its_way_is_deleted_too(self, cluster: ClassicWorld) -> None:
        cluster.log.hold = True
        cluster.commit((T0, 5))
        take_turn(cluster.groups.delete_group("g", lambda _: None))
        cluster.log.release()
        cluster.log.release()
        assert cluster.committed() == {}
        cluster.log.hold = False
        await cluster.restart()
        assert cluster.committed() == {}

    async def test_a_commit_after_the_deletion_stays(self, cluster: ClassicWorld) -> None:
        cluster.log.hold = True
        cluster.commit((T0, 5))
        take_turn(cluster.groups.delete_group("g", lambda _: None))
        cluster.commit((T1, 6))
        for _ in range(3):
            cluster.log.release()
        assert cluster.committed() == {T1: 6}
        cluster.log.hold = False
        await cluster.restart()
        assert cluster.committed() == {T1: 6}

    async def test_long_group_ids_are_taken_up_to_a_limit(self, cluster: ClassicWorld) -> None:
        cluster.groups.max_group_ids_bytes = 5_000
        cluster.commit((T0, 1), group="a" * 3_000)
        with pytest.raises(KafkaError, match="INVALID_COMMIT_OFFSET_SIZE"):
            cluster.commit((T0, 1), group="b" * 3_000)
        refused = cluster.groups.join_group("c" * 3_000, joining())
        assert isinstance(refused, JoinGroupResponse)
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert cluster.groups.groups.keys() == {"a" * 3_000}
        cluster.commit((T0, 2), group="a" * 3_000)
        cluster.commit((T0, 1), group="d" * 1_000)

    async def test_a_group_with_many_offsets_is_deleted_in_turns_with_what_is_committed_meanwhile(
        self, cluster: ClassicWorld
    ) -> None:
        last = TopicPartition("t", 1_999)
        for start in range(0, 2_000, 500):
            cluster.commit(*((TopicPartition("t", n), 1) for n in range(start, start + 500)))
        steps = cluster.groups.delete_group("g", lambda _: None)
        for _ in steps:
            cluster.commit((last, 2))
        assert cluster.committed() == {}
        await cluster.restart()
        assert cluster.committed() == {}

    async def test_a_group_that_is_joined_while_its_offsets_are_removed_stays(
        self, cluster: ClassicWorld
    ) -> None:
        cluster.commit(*((TopicPartition("t", n), 1) for n in range(2_000)))
        steps = cluster.groups.delete_group("g", lambda _: None)
        next(steps)
        await cluster.join()
        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
            next(steps)
        assert len(cluster.committed()) == 1_500

    async def test_offsets_of_a_deleted_topic_are_gone(self, cluster: ClassicWorld) -> None:
        cluster.commit((T0, 5), (TopicPartition("u", 0), 6))
        cluster.commit((T0, 7), group="other")
        topics = [Topic("t", random_uuid(), ()), cluster.log.entry()]
        image = MetadataImage().with_topics(topics)
        cluster.groups.metadata_changed(image, image.with_topics(deleted=["t"]))
        assert cluster.committed() == {TopicPartition("u", 0): 6}
        await cluster.restart()
        assert cluster.committed() == {TopicPartition("u", 0): 6}
        assert cluster.committed("other") == {}

    async def test_offsets_of_a_topic_that_is_made_anew_are_gone(self, cluster: ClassicWorld) -> None:
        cluster.commit((T0, 5))
        image = MetadataImage().with_topics([Topic("t", random_uuid(), ()), cluster.log.entry()])
        cluster.groups.metadata_changed(image, image.with_topics([Topic("t", random_uuid(), ())]))
        assert cluster.committed() == {}

    async def test_offsets_of_a_new_topic_stay_while_those_of_the_old_one_go(
        self, cluster: ClassicWorld
    ) -> None:
        cluster.groups.sweeps.turn_seconds = 0
        cluster.commit((T0, 5), (T1, 6), group="a")
        cluster.commit((T0, 5), (T1, 6), group="b")
        old = Topic("t", random_uuid(), ())
        before = MetadataImage().with_topics([old, cluster.log.entry()])
        without = before.with_topics(deleted=["t"])
        new = Topic("t", random_uuid(), ())
        cluster.groups.metadata_changed(before, without)
        cluster.groups.metadata_changed(without, without.with_topics([new]))
        cluster.commit_to(new, T0, 7)
        cluster.timers.advance(0.1)
        assert cluster.committed("a") == cluster.committed("b") == {}
        assert cluster.committed() == {T0: 7}

    async def test_a_commit_to_a_new_topic_is_not_removed_on_its_way(self, cluster: ClassicWorld) -> None:
        cluster.groups.sweeps.turn_seconds = 0
        cluster.commit((T0, 5))
        old = Topic("t", random_uuid(), ())
        before = MetadataImage().with_topics([old, cluster.log.entry()])
        without = before.with_topics(deleted=["t"])
        new = Topic("t", random_uuid(), ())
        cluster.groups.metadata_changed(before, without)
        cluster.groups.metadata_changed(without, without.with_topics([new]))
        cluster.log.hold = True
        cluster.commit_to(new, T0, 7)
        cluster.timers.advance(0.1)
        cluster.log.release()
        assert cluster.committed() == {T0: 7}


class TestOtherTypes:
    """A group that is not of the classic type."""

    @pytest.fixture
    def groups(self, cluster: ClassicWorld) -> GroupCoordinator:
        cluster.groups.groups["g"] = OtherGroup("g")
        return cluster.groups

    def test_cannot_be_joined_by_a_classic_member(self, groups: GroupCoordinator) -> None:
        answer = groups.join_group("g", joining())
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert answer.member_id == ""

    def test_has_no_classic_members(self, groups: GroupCoordinator) -> None:
        synced = groups.sync_group(SyncGroupRequest(group_id="g", generation_id=1, member_id="m"))
        assert isinstance(synced, SyncGroupResponse)
        assert synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert groups.heartbeat(beat) is ErrorCode.UNKNOWN_MEMBER_ID
        assert not groups.may_be_member("g", MemberIdentity(member_id="m"))
        (left,) = groups.leave_group("g", [MemberIdentity(member_id="m")])
        assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_is_not_described_as_a_classic_group(self, groups: GroupCoordinator) -> None:
        with pytest.raises(KafkaError, match="Group g is not a classic group") as refused:
            groups.require_classic_group("g")
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    def test_commits_and_goes_by_its_own_rules(self, cluster: ClassicWorld, groups: GroupCoordinator) -> None:
        with pytest.raises(KafkaError) as refused:
            groups.check_commit("g", "m", None, 1)
        assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH
        with pytest.raises(KafkaError) as refused:
            take_turn(groups.delete_group("g", lambda _: None))
        assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
        groups.writes.commit("g", {T0: encode_offset(5, -1, "", 0)})
        cluster.timers.advance(30 * DAY)
        assert cluster.committed() == {T0: 5}


class TestMembership:
    async def test_a_restart_starts_no_rebalance(self, cluster: ClassicWorld) -> None:
        member_id = await cluster.join()
        await cluster.restart()
        assert cluster.heartbeat(member_id) is ErrorCode.NONE
        assert cluster.groups.require_classic_group("g").state is GroupState.STABLE

    async def test_a_group_that_is_too_large_by_now_rebalances_when_it_is_loaded(self) -> None:
        cluster = await ClassicWorld().start()
        first = cluster.groups.join_group("g", joining())
        second = cluster.groups.join_group("g", joining())
        cluster.timers.advance(0.1)
        assert isinstance(first, asyncio.Future)
        assert isinstance(second, asyncio.Future)
        leader = (await first).member_id
        cluster.groups.sync_group(SyncGroupRequest(group_id="g", generation_id=1, member_id=leader))
        cluster.config = GroupConfig(max_size=1)
        await cluster.restart()
        assert cluster.groups.require_classic_group("g").state is GroupState.PREPARING_REBALANCE
        await cluster.groups.stop()

    @pytest.mark.parametrize("session_ms", [5_999, 1_800_001, -1])
    async def test_a_session_timeout_out_of_bounds_is_refused(
        self, cluster: ClassicWorld, session_ms: int
    ) -> None:
        answer = cluster.groups.join_group("g", joining(session_ms=session_ms))
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert "g" not in cluster.groups.groups

    @pytest.mark.parametrize(("session_ms", "refused"), [(99, True), (100, False), (200, False), (201, True)])
    async def test_the_bounds_of_session_timeouts_are_settings(self, session_ms: int, refused: bool) -> None:
        cluster = await ClassicWorld(
            GroupConfig(min_session_timeout_ms=100, max_session_timeout_ms=200)
        ).start()
        answer = cluster.groups.join_group("g", joining(session_ms=session_ms))
        assert isinstance(answer, JoinGroupResponse) is refused
        await cluster.groups.stop()

    async def test_an_empty_group_id_is_no_group_to_join(self, cluster: ClassicWorld) -> None:
        answer = cluster.groups.join_group("", joining())
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.INVALID_GROUP_ID
        cluster.groups.check_commit("", "", None, -1)

    async def test_a_member_id_without_a_group_is_unknown(self, cluster: ClassicWorld) -> None:
        answer = cluster.groups.join_group("g", joining("c-1"))
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert cluster.heartbeat("c-1") is ErrorCode.UNKNOWN_MEMBER_ID
        (left,) = cluster.groups.leave_group("g", [MemberIdentity(member_id="c-1")])
        assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert "g" not in cluster.groups.groups

    async def test_stopping_answers_everybody_who_waits(self, cluster: ClassicWorld) -> None:
        waiting = [cluster.groups.join_group(f"g{n}", joining()) for n in range(5)]
        await cluster.groups.stop()
        for each in waiting:
            assert isinstance(each, asyncio.Future)
            assert (await each).error_code == ErrorCode.NOT_COORDINATOR
        assert cluster.timers.pending == 0
