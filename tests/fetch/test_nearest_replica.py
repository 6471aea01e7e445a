"""Consumers are sent to replicas in their rack, if these have what they want."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.unsupported import RACK_AWARE_SELECTOR
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafkapy.storage.disk.files import FileSlice
from tests.replicas.cluster_rig import TP, Rig
from tests.replicas.conftest import rigs as rigs
from tests.replicas.held_files import until

RACKS = {1: "one", 2: "two", 3: "two"}


async def cluster(path: Path, rigs: list[Rig]) -> Rig:
    rigs.append(rig := Rig(path, 3))
    brokers = [replace(broker, rack=RACKS[number]) for number, broker in rig.image.brokers.items()]
    rig.change(rig.image.with_brokers(brokers, 0))
    for node in RACKS:
        rig[node].config = BrokerConfig({"replica.selector.class": RACK_AWARE_SELECTOR}, clustered=True)
    leader = await rig.lead()
    assert (await leader.produce(b"a", b"b")).error_code == 0
    await rig.caught_up(2, 3)
    await until(lambda: len(leader.leader.in_sync_with(2)) == 2)
    return rig


async def ask(rig: Rig, rack: str, *, node: int = 1, offset: int = 0, version: int = 12) -> PartitionData:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        rack_id=rack,
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[FetchTopic(topic=TP.topic, partitions=[wanted])],
    )
    response = await rig[node].answer(request, version)
    data: PartitionData = response.responses[0].partitions[0]
    return data


def size(data: PartitionData) -> int:
    if not isinstance(data.records, FileSlice):
        return 0
    data.records.release()
    return data.records.nbytes


async def test_a_consumer_is_sent_to_its_rack(tmp_path: Path, rigs: list[Rig]) -> None:
    rig = await cluster(tmp_path, rigs)
    data = await ask(rig, "two")
    assert data.preferred_read_replica in (2, 3)
    assert size(data) == 0


@pytest.mark.parametrize("rack", ["one", "three", ""])
async def test_a_consumer_of_another_rack_stays_with_the_leader(
    tmp_path: Path, rigs: list[Rig], rack: str
) -> None:
    rig = await cluster(tmp_path, rigs)
    data = await ask(rig, rack)
    assert data.preferred_read_replica == -1
    assert size(data) > 0


async def test_a_consumer_at_the_end_is_sent_away_at_once(tmp_path: Path, rigs: list[Rig]) -> None:
    rig = await cluster(tmp_path, rigs)
    assert (await ask(rig, "two", offset=2)).preferred_read_replica in (2, 3)


async def test_a_follower_serves_whom_it_is_sent(tmp_path: Path, rigs: list[Rig]) -> None:
    rig = await cluster(tmp_path, rigs)
    data = await ask(rig, "two", node=3)
    assert (data.preferred_read_replica, size(data) > 0) == (-1, True)


async def test_nobody_is_sent_to_a_replica_that_is_not_in_sync_or_not_alive(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rig = await cluster(tmp_path, rigs)
    rig.wire.cut.add(frozenset((1, 3)))
    rig.change(rig.image.with_brokers([rig.image.brokers[1], rig.image.brokers[3]], 0))
    await rig.controller.elect(1, (1,), tell=(1,))
    assert (await ask(rig, "two")).preferred_read_replica == -1


def test_only_kafkas_own_selectors_are_known() -> None:
    with pytest.raises(ConfigError):
        BrokerConfig({"replica.selector.class": "com.example.Selector"})
    assert BrokerConfig({"replica.selector.class": "org.apache.kafka.common.replica.LeaderSelector"})
