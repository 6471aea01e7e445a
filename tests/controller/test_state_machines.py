"""The state machines of partitions and replicas, without I/O."""

from __future__ import annotations

from itertools import product

import pytest

from kafkapy.controller import partition_states, replica_states
from kafkapy.controller.context import (
    ControllerContext,
    Deletion,
    PartitionStatus,
    Replica,
    ReplicaStatus,
)
from kafkapy.controller.deletions import advance, take_answer
from kafkapy.controller.leader_election import Elected
from kafkapy.controller.reconciliation import reconcile
from kafkapy.controller.request_batch import ControlRequest, Sender
from kafkapy.controller.state_changes import StateChanges
from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_LEADER, NO_NODE, Broker, MetadataImage, PartitionState, Topic
from kafkapy.metadata.store import Create, SetData
from kafkapy.metadata.znodes import Endpoint
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkapy.protocol.types import TopicPartition

T0 = TopicPartition("t", 0)
EPOCH = 9
"""The controller's."""


def broker(broker_id: int) -> Broker:
    endpoint = Endpoint("PLAINTEXT", f"host{broker_id}", 9092, "PLAINTEXT")
    return Broker(broker_id, None, {"PLAINTEXT": endpoint}, broker_id * 100)


def image_of(*states: PartitionState) -> MetadataImage:
    return MetadataImage().with_topics([Topic("t", b"t" * 16, states)])


def begin(state: PartitionState, *alive: int) -> StateChanges:
    context = ControllerContext(brokers={each: broker(each) for each in alive})
    return StateChanges(image_of(state), context, EPOCH)


def sent(changes: StateChanges) -> list[tuple[int, ControlRequest]]:
    """The requests, after the changes are committed."""
    changes.put_into_context()
    sender = Sender(1, EPOCH, "PLAINTEXT")
    return list(changes.requests.requests(changes.image(), changes.context, sender))


def recipients(changes: StateChanges, kind: type[ControlRequest]) -> list[int]:
    return sorted(to for to, request in sent(changes) if isinstance(request, kind))


LED = PartitionState(1, 4, (1, 2), (1, 2, 3), controller_epoch=3, version=6)


@pytest.mark.parametrize(("before", "after"), list(product(PartitionStatus, repeat=2)))
def test_a_partition_takes_only_the_transitions_of_the_table(
    before: PartitionStatus, after: PartitionStatus
) -> None:
    changes = begin(LED, 1)
    changes.set_status(T0, before)
    if before in partition_states.VALID_PREVIOUS[after]:
        partition_states.move(changes, T0, after)
        assert changes.status(T0) is after
    else:
        with pytest.raises(AssertionError, match=before.value):
            partition_states.move(changes, T0, after)
        assert changes.status(T0) is before


@pytest.mark.parametrize(("before", "after"), list(product(ReplicaStatus, repeat=2)))
def test_a_replica_takes_only_the_transitions_of_the_table(
    before: ReplicaStatus, after: ReplicaStatus
) -> None:
    changes, replica = begin(LED, 1), Replica(*T0, 1)
    changes.set_replica_status(replica, before)
    if before in replica_states.VALID_PREVIOUS[after]:
        replica_states.move(changes, replica, after)
        assert changes.replica_status(replica) is after
    else:
        with pytest.raises(AssertionError, match=before.value):
            replica_states.move(changes, replica, after)
        assert changes.replica_status(replica) is before


def test_a_new_partition_is_led_by_its_first_online_replica() -> None:
    changes = begin(PartitionState(NO_LEADER, 0, (), (1, 2, 3), version=NO_NODE), 2, 3)
    partition_states.find(changes, T0)
    assert partition_states.bring_online(changes, T0)
    state = changes.state(T0)
    assert (state.leader, state.isr, state.leader_epoch, state.version) == (2, (2, 3), 0, 0)
    assert state.controller_epoch == EPOCH
    (created,) = changes.operations()
    assert isinstance(created, Create)
    assert znodes.decode_state(created.path, created.data) == (2, 0, (2, 3), EPOCH, 0)
    assert recipients(changes, LeaderAndIsrRequest) == [2, 3]
    assert recipients(changes, UpdateMetadataRequest) == [2, 3]
    for _, request in sent(changes):
        if isinstance(request, LeaderAndIsrRequest):
            assert request.topic_states[0].partition_states[0].is_new
            assert [leader.broker_id for leader in request.live_leaders] == [2]


def test_a_new_partition_without_a_live_replica_stays_new() -> None:
    changes = begin(PartitionState(NO_LEADER, 0, (), (1, 2), version=NO_NODE), 3)
    partition_states.find(changes, T0)
    assert not partition_states.bring_online(changes, T0)
    assert changes.status(T0) is PartitionStatus.NEW
    assert not changes.operations()


def test_an_elected_leader_begins_a_new_epoch_and_all_live_replicas_are_told() -> None:
    changes = begin(LED, 2, 3, 4)
    partition_states.find(changes, T0)
    assert changes.status(T0) is PartitionStatus.OFFLINE
    partition_states.lead(changes, T0, Elected(2, (2,), 0))
    state = changes.state(T0)
    assert (state.leader, state.leader_epoch, state.version) == (2, 5, 7)
    (written,) = changes.operations()
    assert isinstance(written, SetData)
    assert (written.path, written.version) == ("/brokers/topics/t/partitions/0/state", 6)
    assert recipients(changes, LeaderAndIsrRequest) == [2, 3]
    assert recipients(changes, UpdateMetadataRequest) == [2, 3, 4]


def test_however_often_a_partition_changes_for_one_event_its_epoch_grows_by_one() -> None:
    changes = begin(LED, 2, 3)
    partition_states.find(changes, T0)
    partition_states.lose_leader(changes, T0)
    partition_states.lead(changes, T0, Elected(2, (1, 2), 0))
    replica_states.go_offline(changes, Replica(*T0, 1))
    state = changes.state(T0)
    assert (state.leader, state.isr, state.leader_epoch, state.version) == (2, (2,), 5, 7)
    assert len(changes.operations()) == 1


def test_a_partition_that_loses_its_leader_keeps_its_in_sync_replicas() -> None:
    changes = begin(LED, 3)
    partition_states.find(changes, T0)
    partition_states.lose_leader(changes, T0)
    for each in (1, 2):
        replica_states.go_offline(changes, Replica(*T0, each))
    state = changes.state(T0)
    assert (state.leader, state.isr, state.leader_epoch) == (NO_LEADER, (1, 2), 5)
    assert recipients(changes, LeaderAndIsrRequest) == [3]
    assert recipients(changes, StopReplicaRequest) == []


def test_a_follower_that_goes_offline_is_stopped_and_leaves_the_in_sync_replicas() -> None:
    changes = begin(LED, 1, 2, 3)
    partition_states.find(changes, T0)
    replica_states.go_offline(changes, Replica(*T0, 2))
    state = changes.state(T0)
    assert (state.leader, state.isr, state.leader_epoch) == (1, (1,), 5)
    assert recipients(changes, LeaderAndIsrRequest) == [1, 3]
    (stop,) = (request for to, request in sent(changes) if isinstance(request, StopReplicaRequest))
    stopped = stop.topic_states[0].partition_states[0]
    assert (stopped.leader_epoch, stopped.delete_partition) == (5, False)


def test_reconciling_again_changes_nothing() -> None:
    changes = begin(LED, 1, 2, 3)
    reconcile(changes, T0, unclean=False, is_new=False)
    changes.put_into_context()
    again = StateChanges(changes.image(), changes.context, EPOCH)
    reconcile(again, T0, unclean=False, is_new=False)
    assert not again
    assert not again.requests


@pytest.mark.parametrize("alive", [(1, 2, 3), (2, 3), (1, 3), (3,), ()])
@pytest.mark.parametrize("restarted", [(), (1,), (2,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("offline", [(), (1,), (2,)])
@pytest.mark.parametrize("shutting_down", [(), (1,), (2,)])
@pytest.mark.parametrize("leader", [1, 2, NO_LEADER])
def test_whatever_is_lost_the_leader_is_in_sync_and_alive(
    alive: tuple[int, ...],
    restarted: tuple[int, ...],
    offline: tuple[int, ...],
    shutting_down: tuple[int, ...],
    leader: int,
) -> None:
    changes = begin(LED._replace(leader=leader), *alive)
    context = changes.context
    context.restarted = set(restarted) & set(alive)
    context.offline = {each: {T0} for each in offline if each in alive}
    context.shutting_down = set(shutting_down) & set(alive)
    reconcile(changes, T0, unclean=False, is_new=False)
    state = changes.state(T0)
    assert state.isr
    assert set(state.isr) <= {1, 2}
    if state.leader != NO_LEADER:
        assert state.leader in state.isr
        assert all(context.is_alive(each, T0) for each in state.isr)
    else:
        assert state.isr == (1, 2)
        assert not [each for each in state.isr if context.is_online(each, T0)]
    if leader in context.restarted or not context.is_alive(leader, T0):
        assert state.leader == NO_LEADER or state.leader_epoch == 5
    told = {to for to, request in sent(changes) if isinstance(request, LeaderAndIsrRequest)}
    assert told == {each for each in (1, 2, 3) if context.is_alive(each, T0)}


def test_a_deletion_asks_the_live_brokers_and_waits_for_the_others() -> None:
    changes = begin(LED, 1, 2)
    reconcile(changes, T0, unclean=False, is_new=False)
    changes.put_into_context()
    topic = Topic("t", b"t" * 16, (LED,))
    deletion = Deletion(topic)
    assert deletion.left == 3
    context = changes.context
    context.deletions["t"] = deletion
    changes = StateChanges(MetadataImage(), context, EPOCH)
    advance(changes, topic, 0)
    requests = [
        (to, request)
        for to, request in changes.requests.requests(MetadataImage(), context, Sender(1, EPOCH, "PLAINTEXT"))
    ]
    changes.put_into_context()
    stops = [(to, request) for to, request in requests if isinstance(request, StopReplicaRequest)]
    assert [to for to, _ in stops] == [1, 2]
    assert all(
        (state.delete_partition, state.leader_epoch) == (True, -2)
        for _, request in stops
        for state in request.topic_states[0].partition_states
    )
    (update, _) = (request for _, request in requests if isinstance(request, UpdateMetadataRequest))
    assert update.topic_states[0].partition_states[0].leader == -2
    statuses = [context.replicas[Replica(*T0, each)] for each in (1, 2, 3)]
    assert statuses == [ReplicaStatus.DELETION_STARTED] * 2 + [ReplicaStatus.DELETION_INELIGIBLE]
    # One broker has deleted it, another cannot.
    for to, code in ((1, ErrorCode.NONE), (2, ErrorCode.KAFKA_STORAGE_ERROR)):
        changes = StateChanges(MetadataImage(), context, EPOCH)
        error = StopReplicaPartitionError(topic_name="t", partition_index=0, error_code=code)
        request = dict(stops)[to]
        deleted = take_answer(changes, to, request, StopReplicaResponse(partition_errors=[error]))
        assert deleted["t"] == (code == ErrorCode.NONE)
        changes.put_into_context()
    # Nobody is asked again before its broker starts anew.
    changes = StateChanges(MetadataImage(), context, EPOCH)
    advance(changes, topic, 0)
    assert not changes.requests
    context.add_brokers([broker(3)])
    advance(changes, topic, 0)
    changes.put_into_context()
    assert context.replicas[Replica(*T0, 3)] is ReplicaStatus.DELETION_STARTED


def test_a_broker_that_starts_anew_is_asked_again_to_delete() -> None:
    changes = begin(LED, 1, 2, 3)
    topic = Topic("t", b"t" * 16, (LED,))
    changes.context.deletions["t"] = Deletion(topic)
    advance(changes, topic, 0)
    changes.put_into_context()
    context = changes.context
    context.restarted.add(2)
    changes = StateChanges(MetadataImage(), context, EPOCH)
    advance(changes, topic, 0)
    requests = changes.requests.requests(MetadataImage(), context, Sender(1, EPOCH, "PLAINTEXT"))
    assert [to for to, request in requests if isinstance(request, StopReplicaRequest)] == [2]
