"""Brokers of Apache Kafka with the protocol of release 2.6 change the ISR themselves.

With `inter.broker.protocol.version` 2.6 they write it to ZooKeeper.
"""

from __future__ import annotations

import json

import pytest

from interop.beside_kafka.conftest import StartMixed
from interop.beside_kafka.mixed_cluster import KAFKA, KAFKAPY, MixedCluster
from interop.beside_kafka.records import numbered, wait_until_equal, write
from interop.support.waiting import wait_until


@pytest.fixture(scope="module")
def shared_cluster(start_mixed: StartMixed) -> MixedCluster:
    cluster = start_mixed({3: KAFKAPY, 1: KAFKA, 2: KAFKA}, inter_broker_protocol_version="2.6")
    cluster.wait_for_controller(3)
    return cluster


def test_the_controller_follows_leaders_that_change_the_isr_themselves(cluster: MixedCluster) -> None:
    cluster.create("t", [[1, 2, 3], [2, 1, 3], [3, 1, 2]])
    for partition in range(3):
        write(cluster, "t", numbered("before"), partition=partition)
        wait_until_equal(cluster, "t", partition=partition)
    cluster[2].kill()
    cluster.wait_for_in_sync("t", [1, 3])
    write(cluster, "t", numbered("while"))
    cluster.start_all()
    for partition in range(3):
        cluster.wait_for_in_sync("t", [1, 2, 3], partition)
        write(cluster, "t", numbered("after"), partition=partition)
        wait_until_equal(cluster, "t", partition=partition)
    # A leader writes its notice some seconds later. Each is a node that was made and deleted.
    notices = "/isr_change_notification"
    wait_until(lambda: cluster.child_changes(notices) >= 2 and not cluster.children(notices), timeout=60)


def test_features_are_said_not_to_be_versioned(cluster: MixedCluster) -> None:
    disabled = {"version": 1, "status": 0, "features": {}}
    assert json.loads(cluster.node("/feature")) == disabled
    cluster[3].stop()
    wait_until(lambda: cluster.metadata(1).controller_id in (1, 2))
    cluster.start_all()
    assert json.loads(cluster.node("/feature")) == disabled
