"""A scene with three brokers, whose every controller is deposed.

It is deposed when it has decided to delete a topic.

Its order to one broker is held back, and arrives when another controller has carried the deletion out and the
next topic of that name is there. Nothing else goes wrong, so a run is short. An order that says to delete has
no topic id (StopReplica): only the controller's epoch and the metadata tell that it is an old one.
"""

from __future__ import annotations

from kafkapy.metadata import znodes
from kafkapy.protocol.types import ApiKey
from tests.simulation.replicas import ReplicaChecks
from tests.simulation.run import Run
from tests.simulation.short_lived_topic import NAME, ShortLivedTopic
from tests.simulation.three_brokers import BROKERS, SESSION_SECONDS, SETTINGS


def deposed_controllers(run: Run) -> None:
    """Some lives of a topic; raises SimulationError."""
    world = run.world
    for node_id in range(1, BROKERS + 1):
        broker = run.add_broker(node_id, SETTINGS, in_cluster=True)
        broker.session_seconds = SESSION_SECONDS
    checks = ReplicaChecks(world, run.tree, run.brokers)
    run.wait_for(lambda: all(broker.is_serving for broker in run.brokers), "the start of all brokers")

    is_due = False

    def created(path: str) -> None:
        nonlocal is_due
        is_due |= path == znodes.delete_topic_path(NAME)

    def heard(sender: str, to: str, key: int) -> None:
        nonlocal is_due
        if is_due and key == ApiKey.STOP_REPLICA and world.chance.random() < 0.7:
            is_due = False
            world.fault("late order")
            _depose(run, sender, to)

    run.tree.created.append(created)
    run.network.heard.append(heard)
    topic = ShortLivedTopic(world, run.addresses, world.now, checks.leader)
    until = world.now + run.fault_seconds
    while world.now < until:
        run.finish(topic.live(), "a life of a topic")


def _depose(run: Run, controller: str, to: str) -> None:
    """Hold back what the controller sends to a broker, and let its session expire."""
    chance = run.world.chance
    (deposed,) = (each for each in run.brokers if each.host == controller)
    deposed.expire_session_after(0.02 + chance.random() * 0.1)
    run.network.separate(controller, to)
    run.world.later(1 + 2 * chance.random(), run.network.join, controller, to)
