"""A broker obeys the latest controller, partition by partition.

It does so for its present registration.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicV1,
)
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.controller_requests import LEADER_DURING_DELETE
from kafkapy.replicas.partition import Partition
from kafkapy.storage.disk.errors import DiskFullError
from kafkapy.storage.log.partition_log import PartitionLog
from tests.replicas.cluster_rig import TP, Node, Rig, id_of
from tests.replicas.held_files import until
from tests.storage.log_harness import Fault, batch, names

OTHER = TP._replace(topic="other")


def requests(rig: Rig) -> dict[str, Any]:
    """A request of each kind."""
    return {
        "leader_and_isr": rig.controller.request([TP]),
        "stop_replica": rig.controller.stop_request(delete=True),
        "update_metadata": UpdateMetadataRequest(controller_epoch=rig.controller.epoch),
    }


async def ask(node: Node, name: str, request: Any) -> Any:
    return await getattr(node.requests, name)(request)


@pytest.mark.parametrize("name", ["leader_and_isr", "stop_replica", "update_metadata"])
async def test_requests_of_an_old_controller_are_refused(tmp_path: Path, rigs: list[Rig], name: str) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.controller.epoch = 5
    leader = await rig.lead()
    rig.controller.epoch = 4
    answer = await ask(leader, name, requests(rig)[name])
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert leader.requests.controller_epoch == 5
    assert leader.partition.replication.leads


@pytest.mark.parametrize("name", ["leader_and_isr", "stop_replica", "update_metadata"])
async def test_requests_for_an_earlier_registration_are_refused(
    tmp_path: Path, rigs: list[Rig], name: str
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    request = requests(rig)[name]
    request.broker_epoch = leader.epoch - 1
    assert (await ask(leader, name, request)).error_code == ErrorCode.STALE_BROKER_EPOCH
    for epoch in (leader.epoch, leader.epoch + 1, -1):  # the controller may hear of a registration first
        request.broker_epoch = epoch
        assert (await ask(leader, name, request)).error_code == ErrorCode.NONE


def errors(answer: Any) -> list[ErrorCode]:
    by_id = [error.error_code for topic in answer.topics for error in topic.partition_errors]
    assert by_id == [error.error_code for error in answer.partition_errors]
    return by_id


async def test_a_state_with_an_older_leader_epoch_is_refused(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    old = rig.controller.request([TP])
    await rig.controller.elect(2)
    for node in (1, 2):
        assert errors(await rig[node].requests.leader_and_isr(old)) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert rig[2].partition.replication.leads


@pytest.mark.parametrize("field", ["leader_epoch", "partition_epoch"])
async def test_epochs_that_the_metadata_does_not_have_are_refused_and_take_no_replica_out(
    tmp_path: Path, rigs: list[Rig], field: str
) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    forged = rig.controller.request([TP])
    (state,) = forged.topic_states[0].partition_states
    genuine = getattr(state, field)
    for epoch in (2**31 - 2, genuine + 1):
        setattr(state, field, epoch)
        for node in (1, 2):
            answer = await rig[node].requests.leader_and_isr(forged)
            assert errors(answer) == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    await rig.controller.tell()
    assert (await rig[1].produce(b"a")).error_code == ErrorCode.NONE  # both are in sync
    await rig.controller.elect(2)
    assert rig[2].partition.replication.leads
    assert (await rig[2].produce(b"b")).error_code == ErrorCode.NONE
    await rig.caught_up(1)


async def test_a_state_that_the_image_has_is_not_read(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    assert set(rig.states_read) == {TP}, "the image had no leader yet"
    rig.states_read.clear()
    topic = rig.image.topics[TP.topic]
    rig.change(rig.image.with_topics([replace(topic, partitions=(rig.controller.states[TP],))]))
    await rig.controller.tell()
    assert rig.states_read == []


async def test_a_state_with_the_same_leader_epoch_brings_a_new_assignment(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    rig.controller.create((1, 2), configs={})
    await rig.controller.elect(1)
    role = rig[1].leader
    state = rig.controller.states[TP]
    rig.controller.states[TP] = grown = state._replace(replicas=(1, 2, 3), version=state.version + 1)
    rig.unseen[TP.topic] = replace(rig.image.topics[TP.topic], partitions=(grown,))
    assert errors((await rig.controller.tell((1,)))[0]) == [ErrorCode.NONE]
    assert rig[1].leader is role
    assert (role.replicas, role.partition_epoch) == ((1, 2, 3), state.version + 1)
    await rig.controller.tell((3,))
    await until(lambda: role.isr == (1, 2, 3))
    stale = rig.controller.request([TP])
    stale.topic_states[0].partition_states[0].partition_epoch = 0
    assert errors(await rig[1].requests.leader_and_isr(stale)) == [ErrorCode.STALE_CONTROLLER_EPOCH]


async def test_another_topic_id_is_refused(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    request = rig.controller.request([TP])
    request.topic_states[0].topic_id = id_of("another")
    request.topic_states[0].partition_states[0].leader_epoch += 1
    assert errors(await leader.requests.leader_and_isr(request)) == [ErrorCode.INCONSISTENT_TOPIC_ID]


async def test_a_broker_that_is_not_assigned_opens_nothing(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    rig.controller.create((1, 2), configs={})
    await rig.controller.elect(1)
    assert errors((await rig.controller.tell((3,)))[0]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    with pytest.raises(KafkaError) as raised:
        rig[3].partition  # noqa: B018
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as raised:
        rig[3].replicas.partition("nowhere", 0)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_that_the_image_does_not_have_yet_is_read(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.controller.create((1, 2), configs={"max.message.bytes": "77"})
    rig.unseen[TP.topic] = rig.image.topics[TP.topic]
    rig.image = rig.image.with_topics(deleted=[TP.topic])
    await rig.controller.elect(1, tell=(1,))
    assert rig[1].partition.log.config.max_message_bytes == 77


async def test_a_partition_is_replicated_and_written_by_id_before_the_image_has_its_topic(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    """ZooKeeper may be lost just after the roles were given: then the image is old for long."""
    rigs.append(rig := Rig(tmp_path))
    rig.controller.create((1, 2), configs={})
    topic = rig.unseen[TP.topic] = rig.image.topics[TP.topic]
    rig.change(rig.image.with_topics(deleted=[TP.topic]))
    await rig.controller.elect(1)
    for node in (1, 2):
        await rig[node].requests.update_metadata(told_of(rig))
    assert (await rig[1].produce(b"a")).error_code == ErrorCode.NONE  # the follower, too, has it
    assert rig[2].offsets[2] == 1
    assert (await produce_by_id(rig[1], topic.id, b"b")).error_code == ErrorCode.NONE
    rig.change(rig.image.with_topics([topic]))
    assert rig[1].requests.new_topics.name(topic.id) is None
    assert (await rig[1].produce(b"c")).error_code == ErrorCode.NONE
    # The next topic of the name is not the one whose partition is here.
    rig.change(rig.image.with_topics([replace(topic, id=id_of("the next"))]))
    assert (await produce_by_id(rig[1], topic.id, b"d")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await produce_by_id(rig[1], id_of("the next"), b"d")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert rig[1].offsets[2] == 3


def told_of(rig: Rig, leader: int | None = None) -> UpdateMetadataRequest:
    """What the controller tells of TP; with a leader of its own if that is given."""
    state = rig.controller.states[TP]
    partition = UpdateMetadataPartitionState(
        partition_index=TP.partition,
        leader=state.leader if leader is None else leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        replicas=list(state.replicas),
        zk_version=state.version,
        controller_epoch=rig.controller.epoch,
    )
    topic = UpdateMetadataTopicState(
        topic_name=TP.topic, topic_id=id_of(TP.topic), partition_states=[partition]
    )
    return UpdateMetadataRequest(controller_epoch=rig.controller.epoch, topic_states=[topic])


async def produce_by_id(node: Node, topic_id: bytes, value: bytes) -> PartitionProduceResponse:
    data = PartitionProduceData(index=TP.partition, records=memoryview(batch(value)))
    topic = TopicProduceData(topic_id=topic_id, partition_data=[data])
    response = await node.answer(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic]), 13)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


async def test_a_topic_of_which_only_the_controller_has_told_is_shown_until_it_is_deleted(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.controller.create((1, 2), configs={})
    rig.change(rig.image.with_topics(deleted=[TP.topic]))
    requests = rig[1].requests
    await requests.update_metadata(told_of(rig, leader=2))
    (shown,) = requests.new_topics.added_to(rig.image).topics.values()
    assert (shown.name, shown.id, shown.partitions[0].leader) == (TP.topic, id_of(TP.topic), 2)
    await requests.update_metadata(told_of(rig, leader=LEADER_DURING_DELETE))
    assert requests.new_topics.added_to(rig.image) is rig.image
    of_a_bad_name = told_of(rig)
    of_a_bad_name.topic_states[0].topic_name = "../t"
    await requests.update_metadata(of_a_bad_name)
    assert requests.new_topics.added_to(rig.image) is rig.image


async def test_settings_change_with_the_image(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead(configs={"max.message.bytes": "77"})
    rig.controller.create((1, 2), configs={"max.message.bytes": "88"})
    assert [rig[node].partition.log.config.max_message_bytes for node in (1, 2)] == [88, 88]


async def test_the_image_neither_opens_nor_deletes_partitions_in_a_cluster(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.controller.create((1, 2), configs={})
    assert list(rig[1].replicas) == []
    await rig.controller.elect(1)
    rig.change(rig.image.with_topics(deleted=[TP.topic]))
    assert rig[1].partition.replication.leads


async def test_a_partition_that_has_moved_away_is_led_no_more_and_its_log_stays_until_a_request(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    waiting = leader.partition.watch_commit(leader.write(b"a"), 60)
    topic, state = rig.image.topics[TP.topic], rig.controller.states[TP]
    moved = state._replace(leader=2, leader_epoch=state.leader_epoch + 1, replicas=(2,), isr=(2,))
    rig.change(rig.image.with_topics([replace(topic, partitions=(state,))]))
    assert leader.partition.replication.leads
    rig.change(rig.image.with_topics([replace(topic, partitions=(moved,))]))
    with pytest.raises(KafkaError) as raised:
        await waiting
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await leader.produce(b"b")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.leaderships == [(*TP, True, 0), (*TP, False, 0)]
    assert str(TP) in names(leader.storage.path.parent)
    await leader.requests.stop_replica(rig.controller.stop_request(delete=True))
    assert str(TP) not in names(leader.storage.path.parent)


async def test_a_log_that_cannot_be_opened_does_not_stop_the_others(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    for key in (TP, OTHER):
        rig.controller.create((1, 2), key=key, configs={})
        await rig.controller.elect(1, key=key, tell=())
    in_the_way = rig[1].storage.path
    in_the_way.mkdir()
    rig[1].logs._damaged[TP] = (rig[1].logs.directories[0], KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))  # type: ignore[assignment]
    answer = await rig[1].requests.leader_and_isr(rig.controller.request([TP, OTHER]))
    assert errors(answer) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert rig[1].replicas.is_offline(*TP)
    assert rig[1].replicas.partition(*OTHER).replication.leads


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC], ids=["descriptors", "space"])
async def test_a_replica_that_lacks_room_gets_its_role_when_there_is_room(
    tmp_path: Path, rigs: list[Rig], code: int
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader, follower = await rig.lead(), rig[2]
    await leader.produce(b"a")
    await rig.caught_up(2)
    # As after a power cut: the file with the topic id was not synced yet.
    await follower.restart(meanwhile=(follower.storage.path / "partition.metadata").unlink)
    rig.register((1, 2))
    told: list[str] = []
    follower.replicas.on_room = lambda: told.append("there is room")
    follower.files.faults = [Fault("rename", code, "partition.metadata")]
    assert errors((await rig.controller.tell((2,)))[0]) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert not follower.replicas.reopen(rig.image)
    assert told == []
    follower.files.faults = []
    for _ in range(2):
        assert not follower.replicas.reopen(rig.image)
        assert told == ["there is room"]
    assert follower.replicas.is_offline(*TP), "only the controller gives roles"
    assert errors((await rig.controller.tell((2,)))[0]) == [ErrorCode.NONE]
    assert not follower.replicas.is_offline(*TP)
    await leader.produce(b"b")
    await rig.caught_up(2)


async def test_a_replica_that_lacks_room_and_is_deleted_waits_for_none(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    follower = rig[2]
    await follower.restart(meanwhile=(follower.storage.path / "partition.metadata").unlink)
    rig.register((1, 2))
    follower.files.faults = [Fault("rename", errno.ENOSPC, "partition.metadata")]
    assert errors((await rig.controller.tell((2,)))[0]) == [ErrorCode.KAFKA_STORAGE_ERROR]
    rig.marked.add(TP.topic)
    answer = await follower.requests.stop_replica(rig.controller.stop_request(delete=True))
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.NONE]
    follower.files.faults = []
    follower.replicas.on_room = lambda: pytest.fail("nothing has waited for room")
    assert not follower.replicas.reopen(rig.image)
    assert not follower.replicas.any_offline


async def test_a_leader_that_cannot_follow_ceases_to_lead_and_begins_anew_with_the_next_request(
    tmp_path: Path, rigs: list[Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    adopted: list[Partition] = []

    def adopt(log: PartitionLog, policy: object) -> None:
        adopted.append(leader.partition)
        raise DiskFullError(log.path, "no space left on the device")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "adopt_damage_policy", adopt)
        await rig.controller.elect(2, tell=(1,))
    assert leader.leaderships[-1] == (*TP, False, rig.controller.states[TP].leader_epoch)
    assert leader.replicas.is_offline(*TP)
    with pytest.raises(KafkaError):
        adopted[0].require_online()
    await rig.controller.tell((1, 2))
    await rig[2].produce(b"a")
    await rig.caught_up(1)


async def test_a_failed_log_directory_is_answered_until_it_is_back(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    directory = leader.logs.directories[0]
    failed = directory.failed("testing", OSError(errno.EIO, "the disk is gone"))
    leader.replicas.log_directory_failed(directory, failed)
    assert list(leader.requests.leaders()) == []
    await rig.controller.elect(1, tell=())
    assert errors((await rig.controller.tell((1,)))[0]) == [ErrorCode.KAFKA_STORAGE_ERROR]
    answer = await leader.requests.stop_replica(rig.controller.stop_request(delete=True))
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_a_full_request_stops_what_neither_it_nor_the_metadata_names(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    for key in (TP, OTHER):
        rig.controller.create((1, 2), key=key, configs={})
        await rig.controller.elect(1, key=key)
    rig[1].write(b"kept")
    request = rig.controller.request([OTHER])
    request.type = 2
    with_both = rig.image
    rig.change(rig.image.with_topics(deleted=[TP.topic]))
    await rig[1].requests.leader_and_isr(request)
    rig.change(with_both)
    assert [partition.topic_partition for partition in rig[1].replicas] == [OTHER]
    assert str(TP) in names(rig[1].storage.path.parent)
    await rig.controller.elect(1)
    assert rig[1].offsets[2] == 1


async def test_a_stopped_replica_fetches_no_more_until_it_is_told_to(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    await rig[2].requests.stop_replica(rig.controller.stop_request(delete=False, leader_epoch=0))
    assert rig[2].fetchers.by_place == {}
    leader.write(b"b")
    await rig.controller.elect(1)
    await rig.caught_up(2)
    assert rig[2].content == leader.content


async def test_a_broker_that_leaves_fetches_only_where_it_is_in_sync(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    await rig.lead()
    rig[1].requests.is_leaving = True
    await rig.controller.elect(3, [2, 3])
    assert not rig[1].fetchers.follows(TP)
    assert rig[2].fetchers.follows(TP)
    await rig.controller.elect(3, [1, 2, 3])
    assert rig[1].fetchers.follows(TP)


async def test_a_stop_for_an_older_leader_epoch_is_refused(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    await rig.controller.elect(1)
    answer = await rig[2].requests.stop_replica(rig.controller.stop_request(delete=True, leader_epoch=0))
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.FENCED_LEADER_EPOCH]
    assert rig[2].partition


OLD_STOPS = [
    StopReplicaRequest(
        controller_epoch=1,
        delete_partitions=True,
        ungrouped_partitions=[StopReplicaPartitionV0(topic_name=TP.topic, partition_index=0)],
    ),
    StopReplicaRequest(
        controller_epoch=1,
        delete_partitions=True,
        topics=[StopReplicaTopicV1(name=TP.topic, partition_indexes=[0])],
    ),
    None,
]


@pytest.mark.parametrize("old", OLD_STOPS, ids=["v0", "v1", "v3"])
async def test_a_deleted_replica_is_gone_when_the_answer_comes(
    tmp_path: Path, rigs: list[Rig], old: StopReplicaRequest | None
) -> None:
    rigs.append(rig := Rig(tmp_path, durability="fsync"))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    waiting = leader.partition.watch_commit(5, 60)
    rig.marked.add(TP.topic)
    answer = await leader.requests.stop_replica(old or rig.controller.stop_request(delete=True))
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.NONE]
    with pytest.raises(KafkaError):
        await waiting
    assert str(TP) not in names(leader.storage.path.parent)
    assert str(leader.storage.path.parent) in leader.files.synced
    again = await leader.requests.stop_replica(rig.controller.stop_request(delete=True))
    assert [error.error_code for error in again.partition_errors] == [ErrorCode.NONE]


@pytest.mark.parametrize("old", OLD_STOPS, ids=["v0", "v1", "v3"])
async def test_a_deletion_that_comes_late_leaves_the_next_topic_of_the_name(
    tmp_path: Path, rigs: list[Rig], old: StopReplicaRequest | None
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    late = old or rig.controller.stop_request(delete=True)
    rig.marked.add(TP.topic)
    await leader.requests.stop_replica(late)
    rig.marked.clear()
    await rig.controller.elect(1)
    assert (await leader.produce(b"of the next topic", acks=1)).error_code == 0
    answer = await leader.requests.stop_replica(late)
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.FENCED_LEADER_EPOCH]
    assert leader.partition.replication.leads
    assert b"of the next topic" in leader.content


async def test_a_request_to_lead_that_comes_after_the_deletion_brings_nothing_back(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    late = rig.controller.request([TP])
    rig.unseen[TP.topic] = rig.image.topics[TP.topic]
    await leader.requests.stop_replica(rig.controller.stop_request(delete=True))
    rig.change(rig.image.with_topics(deleted=[TP.topic]))  # others still have replicas to delete
    answer = await leader.requests.leader_and_isr(late)
    assert errors(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert str(TP) not in names(leader.storage.path.parent)


async def test_a_request_to_lead_that_comes_after_the_partition_has_moved_away_brings_nothing_back(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    late, shown = rig.controller.request([TP]), rig.image.topics[TP.topic]
    await leader.requests.stop_replica(rig.controller.stop_request(delete=True))
    rig.marked.clear()
    moved = shown.partitions[0]._replace(replicas=(2, 3), isr=(2, 3), leader=2)
    rig.unseen[TP.topic] = replace(shown, partitions=(moved, *shown.partitions[1:]))  # the image is older
    answer = await leader.requests.leader_and_isr(late)
    assert errors(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert str(TP) not in names(leader.storage.path.parent)


async def test_a_replica_of_a_former_topic_gives_way_to_the_next_one(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"of the former topic", acks=1)).error_code == 0
    former = rig.controller.request([TP])
    request = rig.controller.request([TP])
    request.topic_states[0].topic_id = id_of("the next")
    request.topic_states[0].partition_states[0].leader_epoch = 0
    rig.change(rig.image.with_topics([replace(rig.image.topics[TP.topic], id=id_of("the next"))]))
    assert errors(await leader.requests.leader_and_isr(request)) == [ErrorCode.NONE]
    assert (leader.partition.topic_id, leader.partition.log.log_end_offset) == (id_of("the next"), 0)
    assert b"of the former topic" not in leader.content
    assert errors(await leader.requests.leader_and_isr(former)) == [ErrorCode.INCONSISTENT_TOPIC_ID]


async def test_a_replica_that_is_being_removed_is_deleted_before_its_topic_says_so(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    stop = rig.controller.stop_request(delete=True, leader_epoch=5)
    answer = await rig[2].requests.stop_replica(stop)
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.FENCED_LEADER_EPOCH]
    topic = rig.image.topics[TP.topic]
    state = topic.partitions[0]._replace(removing=(2,))  # an Apache Kafka deletes before it writes the rest
    rig.change(rig.image.with_topics([replace(topic, partitions=(state,))]))
    answer = await rig[2].requests.stop_replica(stop)
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.NONE]
    assert str(TP) not in names(rig[2].storage.path.parent)


async def test_leadership_is_told(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    await rig.controller.elect(2)
    await rig.controller.elect(2)
    await rig[2].requests.stop_replica(rig.controller.stop_request(delete=True))
    assert rig[1].leaderships == [(*TP, True, 0), (*TP, False, 1)]
    assert rig[2].leaderships == [(*TP, True, 1), (*TP, True, 2), (*TP, False, 2)]


async def test_partitions_without_a_leader_wait_for_one(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    await rig.controller.elect(-1)
    assert (await leader.produce(b"b")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await rig.controller.elect(2)
    assert (await rig[2].produce(b"b")).error_code == 0


async def test_a_follower_fetches_when_its_leader_has_registered(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.register((2,))
    leader = await rig.lead()
    leader.write(b"a")
    rig.register((1, 2))
    await rig.caught_up(2)


async def test_offline_replicas_come_with_the_metadata(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.controller.create((1, 2), configs={})
    node = rig[1].requests

    def told(offline: list[int]) -> UpdateMetadataRequest:
        state = UpdateMetadataPartitionState(partition_index=0, offline_replicas=offline)
        topic = UpdateMetadataTopicState(topic_name=TP.topic, partition_states=[state])
        return UpdateMetadataRequest(controller_epoch=1, topic_states=[topic])

    await node.update_metadata(told([2]))
    assert node.offline_replicas == {TP: (2,)}
    await node.update_metadata(told([]))
    assert node.offline_replicas == {}


async def test_only_assigned_replicas_of_partitions_that_exist_are_noted_as_offline(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.controller.create((1, 2), configs={})
    states = [UpdateMetadataPartitionState(partition_index=n, offline_replicas=[9, 2]) for n in (-1, 0, 1)]
    topics = [UpdateMetadataTopicState(topic_name=name, partition_states=states) for name in ("no", TP.topic)]
    await rig[1].requests.update_metadata(UpdateMetadataRequest(controller_epoch=1, topic_states=topics))
    assert rig[1].requests.offline_replicas == {TP: (2,)}


@pytest.mark.parametrize("name", ["leader_and_isr", "stop_replica", "update_metadata"])
async def test_a_controller_epoch_that_no_controller_has_is_refused(
    tmp_path: Path, rigs: list[Rig], name: str
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    request = requests(rig)[name]
    request.controller_epoch = 2**31 - 1
    assert (await ask(leader, name, request)).error_code == ErrorCode.INVALID_REQUEST
    assert leader.requests.controller_epoch == 1
    await rig.controller.elect(2)
    assert rig[2].partition.replication.leads


NOWHERE = [
    *(TP._replace(topic=name) for name in ("../../evil", "a/b", "..", "", "\0", "n" * 250, "nobodys")),
    *(TP._replace(partition=index) for index in (-1, 1, 2**31 - 1)),
]


@pytest.mark.parametrize("key", NOWHERE, ids=lambda key: repr(key)[:60])
async def test_a_partition_that_the_metadata_does_not_have_is_not_made(
    tmp_path: Path, rigs: list[Rig], key: TopicPartition
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    directory = leader.storage.path.parent
    await leader.replicas.make_files()
    before = names(directory), names(directory.parent)
    request = rig.controller.request([TP])
    request.topic_states[0].topic_name = key.topic
    request.topic_states[0].partition_states[0].partition_index = key.partition
    assert errors(await leader.requests.leader_and_isr(request)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    await leader.replicas.make_files()
    assert (names(directory), names(directory.parent)) == before
    assert [each.topic_partition for each in leader.replicas] == [TP]
    assert leader.logs.offline_dirs == []


async def test_a_full_request_does_not_stop_what_the_metadata_assigns(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await leader.requests.leader_and_isr(LeaderAndIsrRequest(controller_epoch=1, type=2))
    assert leader.partition.replication.leads


async def test_requests_before_topic_ids_are_obeyed(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.controller.create((1, 2), configs={})
    await rig.controller.elect(1, tell=())
    grouped = rig.controller.request([TP])
    (topic,) = grouped.topic_states
    state = topic.partition_states[0]
    state.topic_name = TP.topic
    for request in (
        LeaderAndIsrRequest(controller_epoch=1, ungrouped_partition_states=[state]),
        LeaderAndIsrRequest(
            controller_epoch=1,
            topic_states=[LeaderAndIsrTopicState(topic_name=TP.topic, partition_states=[state])],
        ),
    ):
        assert errors(await rig[1].requests.leader_and_isr(request)) == [ErrorCode.NONE]
    assert rig[1].partition.replication.leads
