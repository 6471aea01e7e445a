"""A replica that cannot take its role on a full disk takes it when there is room.

No restart is needed.
"""

from __future__ import annotations

import pytest

from kafkapy.metadata import znodes
from tests.simulation.clients import Client, create_topic
from tests.simulation.replicas import ReplicaChecks
from tests.simulation.run import Run, simulate
from tests.simulation.three_brokers import BROKERS, SESSION_SECONDS, SETTINGS, TOPIC


def without_room_for_a_while(run: Run) -> None:
    """A broker whose replica has lost its topic id starts.

    It has no room to write the id down again.
    """
    world = run.world
    for node_id in range(1, BROKERS + 1):
        run.add_broker(node_id, SETTINGS, in_cluster=True).session_seconds = SESSION_SECONDS
    checks = ReplicaChecks(world, run.tree, run.brokers)
    run.wait_for(lambda: all(broker.is_serving for broker in run.brokers), "the start of all brokers")
    run.finish(create_topic(Client(world, "admin", run.addresses), TOPIC, 1, BROKERS, {}), "creating a topic")
    key = (TOPIC, 0, checks.topic_id(TOPIC))
    run.wait_for(lambda: len(checks.isr(key)) == BROKERS, "the first ISR")

    node = run.tree.read(znodes.CONTROLLER)
    assert node is not None
    controller = run.brokers[znodes.decode_controller(node.data) - 1]
    broker = next(each for each in run.brokers if each is not controller)
    data = broker.root / "data"
    run.wait_for((data / f"{TOPIC}-0" / "partition.metadata").exists, "the files of the replica")
    run.network.separate(controller.host, broker.host)

    def start_again() -> None:
        (data / f"{TOPIC}-0" / "partition.metadata").unlink()
        (data / ".kafkapy_reserve").unlink(missing_ok=True)
        broker.start()

    broker.stop(start_again)
    run.wait_for(lambda: broker.lives == 2 and broker.is_serving, "the second start")
    broker.fill_disk(0)
    run.network.join(controller.host, broker.host)
    run.wait_for(
        lambda: broker.core is not None and broker.core.replicas.is_offline(TOPIC, 0), "a role without room"
    )
    assert broker.node_id not in checks.isr(key)
    broker.fill_disk(None)
    run.wait_for(lambda: len(checks.isr(key)) == BROKERS, "the return to the ISR")
    assert broker.lives == 2


@pytest.mark.parametrize("seed", range(3))
def test_a_replica_is_in_sync_again_when_there_is_room(seed: int) -> None:
    simulate(without_room_for_a_while, seed)
