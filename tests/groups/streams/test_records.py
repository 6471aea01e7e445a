"""The records of streams groups: what is written is read again.

What cannot be read is named.
"""

from __future__ import annotations

import pytest

from kafkapy.groups.modern.change import Change, encode_change
from kafkapy.groups.records import decode_key
from kafkapy.groups.streams import records
from kafkapy.groups.streams.group import StreamsGroup
from kafkapy.groups.streams.member import Endpoint, MemberState, StreamsMember
from kafkapy.groups.streams.records import STREAMS_RECORDS, StreamsGroupKey
from kafkapy.groups.streams.tasks import MemberTasks, TaskSet
from kafkapy.groups.streams.topology import Topology
from kafkapy.protocol.errors import DecodeError
from tests.groups.streams.streams_world import WORD_COUNT

MEMBER = StreamsMember(
    "m",
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED_TASKS,
    instance_id=None,
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=1000,
    topology_epoch=3,
    process_id="p",
    endpoint=Endpoint("host", 65_535),
    client_tags=(("zone", "z"),),
    assigned=MemberTasks({"0": {1: 5, 0: 3}}, {"1": frozenset({2})}, {"2": frozenset({4})}),
    revoking=MemberTasks({"0": {2: 2}}, {"1": frozenset({0})}),
)
CHANGES = (
    records.group_epoch("g", 7, -12, 3, {"num.standby.replicas": "1"}),
    records.topology("g", Topology.read(WORD_COUNT)),
    records.member_metadata("g", MEMBER),
    records.current_assignment("g", MEMBER),
    records.target_assignment("g", "m", TaskSet({"0": frozenset({0, 1})}, {"1": frozenset({2})})),
    records.assignment_epoch("g", 6, 1_700_000_000_000),
)


def test_a_group_is_the_same_after_it_was_stored() -> None:
    group = StreamsGroup("g")
    for change in reversed(CHANGES):
        key, value = encode_change(change)
        assert value is not None
        decoded = decode_key(key)
        assert isinstance(decoded, StreamsGroupKey)
        group.replay(STREAMS_RECORDS.decode_change(decoded, value))
    assert group.members == {"m": MEMBER}
    assert (group.epoch, group.metadata_hash, group.validated_topology) == (7, -12, 3)
    assert group.assignment_settings == {"num.standby.replicas": "1"}
    assert (group.assignment_epoch, group.assignment_timestamp) == (6, 1_700_000_000_000)
    assert group.topology == Topology.read(WORD_COUNT)
    for change in CHANGES:
        if not hasattr(change.key, "member_id"):
            again = Change(change.key, group.value_of(change.key))
            assert encode_change(again) == encode_change(change)


def test_the_tombstones_of_a_group_remove_everything() -> None:
    group = StreamsGroup("g")
    for change in CHANGES:
        group.replay(change)
    gone = records.group_gone("g", group.members)
    assert {encode_change(change)[0] for change in gone} == {encode_change(change)[0] for change in CHANGES}
    for change in gone:
        group.replay(change)
    assert (group.members, group.targets, group.topology, group.epoch) == ({}, {}, None, 1)


def test_a_state_of_a_newer_release_is_unknown() -> None:
    change = records.current_assignment("g", MEMBER)
    change.value.state = 99
    group = StreamsGroup("g")
    group.replay(change)
    assert group.members["m"].state is MemberState.UNKNOWN


def test_active_tasks_without_epochs_have_that_of_the_member() -> None:
    change = records.current_assignment("g", MEMBER)
    change.value.active_tasks[0].assignment_epochs = None
    group = StreamsGroup("g")
    group.replay(change)
    assert group.members["m"].assigned.active == {"0": {0: 5, 1: 5}}


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x01\x00", b"\x00\x00"])
def test_a_value_that_cannot_be_read_is_a_decode_error(value: bytes) -> None:
    with pytest.raises(DecodeError):
        STREAMS_RECORDS.decode_change(CHANGES[0].key, value)
