"""One of three ZooKeepers is lost, or all for a while: brokers and clients continue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.cluster.scene import BROKERS, Scene
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import RELEASE, ZooKeeperProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with skipped_without_jars():
        kafka_jars(RELEASE)
    with Scene(tmp_path_factory.mktemp("ensemble"), zookeepers=3) as scene:
        yield scene


@pytest.fixture
def scene(shared_scene: Scene) -> Scene:
    """All brokers and ZooKeepers run."""
    for server in shared_scene.zookeepers:
        if not server.running:
            server.launch()
    shared_scene.zookeepers.wait_until_whole()
    for broker in shared_scene.brokers.values():
        if not broker.running:
            broker.start()
    wait_until(lambda: len(shared_scene.cluster.metadata().brokers) == len(BROKERS), timeout=60)
    return shared_scene


def create(scene: Scene, topic: str) -> None:
    """Create a topic, for which the controller writes to ZooKeeper.

    For a moment there may be no controller.
    """
    admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap_servers, "log_level": 0})

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 3, 3)], request_timeout=30)[topic].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code in (KafkaError.NOT_CONTROLLER, KafkaError.REQUEST_TIMED_OUT):
                return False  # which leaves open whether the topic is created
            if code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        return True

    wait_until(is_created, timeout=60)
    scene.cluster.wait_until_in_sync(topic, timeout=60)


def write(scene: Scene, topic: str, count: int = 30) -> None:
    """Write records that two replicas must have, to every partition."""
    failures: list[str] = []
    producer = Producer(
        {"bootstrap.servers": scene.cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )
    for number in range(count):
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % 3,
            on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
        )
    assert producer.flush(60) == 0
    assert failures == []


def a_follower(scene: Scene) -> ZooKeeperProcess:
    return scene.zookeepers.in_mode("follower")[0]


def test_a_cluster_goes_on_without_a_follower_of_the_ensemble(scene: Scene) -> None:
    create(scene, "before-a-follower-is-lost")
    a_follower(scene).kill()
    write(scene, "before-a-follower-is-lost")
    create(scene, "after-a-follower-is-lost")
    write(scene, "after-a-follower-is-lost")


def test_a_cluster_goes_on_after_the_ensemble_has_lost_its_leader(scene: Scene) -> None:
    create(scene, "before-the-leader-is-lost")
    scene.zookeepers.leader().kill()
    write(scene, "before-the-leader-is-lost")
    create(scene, "after-the-leader-is-lost")
    write(scene, "after-the-leader-is-lost")


def test_a_broker_that_is_killed_without_a_quorum_is_replaced_when_there_is_one(scene: Scene) -> None:
    create(scene, "no-quorum")
    scene.zookeepers[0].kill()
    scene.zookeepers[1].kill()
    leader = scene.cluster.leader("no-quorum", 0)
    scene.cluster[leader].kill()
    scene.zookeepers[1].launch()
    write(scene, "no-quorum")
    assert scene.cluster.leader("no-quorum", 0) != leader
    scene.cluster[leader].start()
    scene.cluster.wait_until_in_sync("no-quorum", timeout=60)


def test_records_are_acknowledged_and_brokers_return_while_no_zookeeper_is_there(scene: Scene) -> None:
    create(scene, "none")
    for server in scene.zookeepers:
        server.kill()
    write(scene, "none")
    follower = next(each for each in BROKERS if each != scene.cluster.leader("none", 0))
    scene.brokers[follower].kill()
    scene.brokers[follower].launch()
    for server in scene.zookeepers:
        server.launch()
    create(scene, "again")
    scene.cluster.wait_until_in_sync("none", timeout=60)
    write(scene, "again")


def test_brokers_come_back_after_every_session_has_ended(scene: Scene) -> None:
    """A session ends only while a ZooKeeper serves, so that brokers must be kept from it."""
    if scene.network is None:
        pytest.skip("without network namespaces brokers cannot be kept from ZooKeeper")
    create(scene, "ended")
    sessions = [broker.output(1000).count("the session is new") for broker in scene.cluster]
    for number in BROKERS:
        for zookeeper in scene.zookeeper_names:
            scene.network.cut(f"broker{number}", zookeeper)
    # The ephemeral nodes are gone when a client that reaches ZooKeeper sees none; the log says it afterwards.
    wait_until(lambda: not scene.registered(), timeout=60)
    scene.network.restore()
    wait_until(lambda: len(scene.registered()) == len(BROKERS), timeout=60)
    now = [broker.output(1000).count("the session is new") for broker in scene.cluster]
    assert [after - before for before, after in zip(sessions, now, strict=True)] == [1, 1, 1]
    scene.cluster.wait_until_in_sync("ended", timeout=60)
    write(scene, "ended")
