"""Followers truncate where their leader has other records (KIP-101, KIP-279)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.protocol.types import ApiKey
from kafkapy.replicas.truncation import Truncation, truncation
from kafkapy.storage.log.partition_log import PartitionLog
from tests.replicas.cluster_rig import TP, Rig
from tests.replicas.held_files import until
from tests.storage.log_harness import Logs, append, batch

FETCH_VERSIONS = pytest.mark.parametrize("fetch_version", [17, 12, 11])
"""With divergence in answers, by ids and by names; and with OffsetForLeaderEpoch."""


def separate(rig: Rig, *nodes: int) -> None:
    """Cut these nodes off from all others."""
    everyone = rig.controller.states[TP].replicas
    rig.wire.cut |= {frozenset((one, other)) for one in nodes for other in everyone if one != other}


def cluster(path: Path, rigs: list[Rig], fetch_version: int, count: int = 2) -> Rig:
    rigs.append(rig := Rig(path, count))
    rig.wire.versions = {ApiKey.FETCH: fetch_version}
    return rig


def epochs(rig: Rig, node: int) -> list[tuple[int, int]]:
    return rig[node].partition.log.leader_epochs.entries


async def same(rig: Rig, *nodes: int) -> None:
    """Wait until these nodes have what the leader has, with the same epochs."""
    leader = rig.controller.states[TP].leader
    await rig.caught_up(*nodes)
    for node in nodes:
        assert rig[node].content == rig[leader].content
        assert epochs(rig, node) == epochs(rig, leader)


@FETCH_VERSIONS
async def test_a_follower_keeps_what_its_leader_has_above_its_high_watermark(
    tmp_path: Path, rigs: list[Rig], fetch_version: int
) -> None:
    """KIP-101, scenario 1.

    A follower that truncated to its high watermark would lose a committed record when it is elected next.
    """
    rig = cluster(tmp_path, rigs, fetch_version)
    leader = await rig.lead()
    assert (await leader.produce(b"one")).error_code == 0
    await rig.caught_up(2)
    leader.write(b"two")
    await until(lambda: rig[2].offsets[2] == 2)
    separate(rig, 2)
    rig[2].partition.log.high_watermark = 1
    await rig[2].restart()
    rig.register((1, 2))
    await rig.controller.tell((2,))
    rig.wire.cut.clear()
    await same(rig, 2)
    assert rig[2].offsets[2] == 2
    await rig[1].stop()
    await rig.controller.elect(2, (2,))
    assert rig[2].offsets == (0, 2, 2)


@FETCH_VERSIONS
async def test_logs_that_diverged_at_the_same_offset_become_equal(
    tmp_path: Path, rigs: list[Rig], fetch_version: int
) -> None:
    """KIP-101, scenario 2: both replicas wrote another record at offset 1, each as the leader."""
    rig = cluster(tmp_path, rigs, fetch_version)
    leader = await rig.lead()
    assert (await leader.produce(b"one")).error_code == 0
    await rig.caught_up(2)
    separate(rig, 1)
    leader.write(b"lost")
    await rig[1].stop()
    await rig.controller.elect(2, (2,))
    rig[2].write(b"kept")
    rig[1].storage.manager = rig[1].storage.new_manager()
    rig[1].start()
    rig.wire.cut.clear()
    rig.register((1, 2))
    await rig.controller.tell((1,))
    await same(rig, 1)
    assert epochs(rig, 1) == [(0, 0), (1, 1)]


@FETCH_VERSIONS
async def test_a_longer_log_of_an_old_leader_is_truncated(
    tmp_path: Path, rigs: list[Rig], fetch_version: int
) -> None:
    rig = cluster(tmp_path, rigs, fetch_version)
    leader = await rig.lead()
    assert (await leader.produce(b"one")).error_code == 0
    await rig.caught_up(2)
    separate(rig, 1)
    for number in range(10):
        leader.write(b"lost %d" % number)
    await rig.controller.elect(2, (2,))
    rig[2].write(b"kept")
    rig.wire.cut.clear()
    await same(rig, 1)
    assert rig[1].offsets == (0, 2, 2)


@FETCH_VERSIONS
async def test_an_old_leader_truncates_even_if_the_new_one_has_written_nothing(
    tmp_path: Path, rigs: list[Rig], fetch_version: int
) -> None:
    rig = cluster(tmp_path, rigs, fetch_version)
    leader = await rig.lead()
    assert (await leader.produce(b"one")).error_code == 0
    await rig.caught_up(2)
    separate(rig, 1)
    leader.write(b"lost")
    await rig.controller.elect(2, (2,))
    rig.wire.cut.clear()
    await until(lambda: rig[1].offsets[2] == 1)
    await same(rig, 1)


@FETCH_VERSIONS
async def test_replicas_that_led_in_turn_without_each_other_become_equal(
    tmp_path: Path, rigs: list[Rig], fetch_version: int
) -> None:
    """KIP-279: after unclean elections the follower's last epoch is unknown to the leader.

    The logs diverge in an earlier epoch than the leader's largest one below that of the follower.
    """
    rig = cluster(tmp_path, rigs, fetch_version)
    leader = await rig.lead()
    assert (await leader.produce(b"one")).error_code == 0
    await rig.caught_up(2)
    separate(rig, 1)
    for number in range(3):
        await rig.controller.elect(1, (1,), tell=(1,))
        rig[1].write(b"one's %d" % number, b"more")
        await rig.controller.elect(2, (2,), tell=(2,))
        rig[2].write(b"two's %d" % number)
    assert epochs(rig, 1) == [(0, 0), (1, 1), (3, 3), (5, 5)]
    assert epochs(rig, 2) == [(0, 0), (2, 1), (4, 2), (6, 3)]
    rig.wire.cut.clear()
    await rig.controller.elect(2, (2,))
    await same(rig, 1)
    assert epochs(rig, 1) == [(0, 0), (2, 1), (4, 2), (6, 3)]


@FETCH_VERSIONS
async def test_three_replicas_agree_after_a_leader_was_cut_off(
    tmp_path: Path, rigs: list[Rig], fetch_version: int
) -> None:
    rig = cluster(tmp_path, rigs, fetch_version, 3)
    leader = await rig.lead()
    assert (await leader.produce(b"one")).error_code == 0
    await rig.caught_up(2, 3)
    rig.wire.cut |= {frozenset((1, 3))}
    leader.write(b"two only")
    await until(lambda: rig[2].offsets[2] == 2)
    separate(rig, 1, 2)
    leader.write(b"one only")
    await rig.controller.elect(3, (3,), tell=(3,))
    rig[3].write(b"three's")
    rig.wire.cut.clear()
    await rig.controller.tell()
    await same(rig, 1, 2)
    assert epochs(rig, 1) == [(0, 0), (1, 1)]


async def test_a_follower_without_a_leader_epoch_truncates_to_its_high_watermark(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.controller.create((1, 2), configs={})
    node = rig[2]
    log = node.logs.create(TP, rig.image.topics[TP.topic].id, node.storage.config, new=True)
    for value in (b"one", b"two"):
        append(log, batch(value), leader_epoch=-1)
    log.advance_high_watermark(1)
    await rig.controller.elect(1, tell=(2,))
    assert node.offsets == (0, 1, 1)


def log_with(path: Path, *written: int) -> PartitionLog:
    """A log with a record of each of these leader epochs."""
    log = Logs(path).log
    for epoch in written:
        append(log, batch(b"a"), leader_epoch=epoch)
    log.advance_high_watermark(1)
    return log


@pytest.mark.parametrize(
    ("epoch", "end_offset", "expected"),
    [
        (-1, -1, Truncation(1, complete=True)),
        (-1, 3, Truncation(3, complete=True)),
        (-1, 30, Truncation(6, complete=True)),
        (5, 4, Truncation(4, complete=True)),
        (5, 30, Truncation(6, complete=True)),
        (2, 3, Truncation(3, complete=True)),
        (2, 30, Truncation(4, complete=True)),
        (4, 5, Truncation(4, complete=False)),
        (1, 2, Truncation(2, complete=False)),
        (7, 5, Truncation(5, complete=True)),
    ],
)
def test_where_a_log_is_truncated(tmp_path: Path, epoch: int, end_offset: int, expected: Truncation) -> None:
    log = log_with(tmp_path, 0, 0, 2, 2, 5, 5)
    assert truncation(log, epoch, end_offset) == expected
