"""A scene with three brokers.

There are crashes, power cuts, partitions of the network, pauses and lost sessions.

Topics have three replicas, min.insync.replicas=2, and producers wait for acks=all, some of them with several
requests in flight. What clients were promised must hold (tests/promises), and the replicas must agree
(replicas.py). After the last fault every record must be acknowledged, and all replicas be in sync again.
"""

from __future__ import annotations

from typing import Final

from kafkapy.metadata import znodes
from kafkapy.virtual.broker import SimulatedBroker
from kafkapy.virtual.network import FAST, SLOW
from tests.simulation.clients import (
    Client,
    SimulatedCommitter,
    SimulatedProducer,
    SimulatedReader,
    create_topic,
)
from tests.simulation.group_member import GroupMember, GroupPromises
from tests.simulation.pipelined_producer import PipelinedProducer
from tests.simulation.reassigner import Reassigner
from tests.simulation.replicas import ReplicaChecks
from tests.simulation.run import CLIENTS_HOST, Run, partitions_of
from tests.simulation.settings import random_settings
from tests.simulation.short_lived_topic import NAME as SHORT_LIVED
from tests.simulation.short_lived_topic import ShortLivedTopic
from tests.simulation.single_broker import check_at_the_end, pause
from tests.simulation.witness import Witness

TOPIC: Final = "orders"
PARTITIONS: Final = 2
MOVED: Final = "moved"
"""A topic with one partition, two replicas, and min.insync.replicas=1."""
BROKERS: Final = 3

SESSION_SECONDS: Final = 2.0

SETTINGS: Final = {
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "200",
    "replica.socket.timeout.ms": "1000",
    "controller.socket.timeout.ms": "1000",
    "inter.broker.listener.name": "PLAINTEXT",
    "unclean.leader.election.enable": "false",
}


FAULTS: Final = (
    *("kill", "power", "power", "blackout", "blackout", "stop", "pause", "slow disk", "full disk"),
    *("network", "separate", "clients", "tree", "expire", "depose"),
)


def three_brokers(run: Run) -> None:
    """Three brokers with faults for a while, then without; raises SimulationError."""
    world = run.world
    for node_id in range(1, BROKERS + 1):
        broker = run.add_broker(node_id, {**random_settings(world.chance), **SETTINGS}, in_cluster=True)
        broker.session_seconds = SESSION_SECONDS
    checks = ReplicaChecks(world, run.tree, run.brokers)
    run.witness = Witness(world, checks.leader)
    run.wait_for(lambda: all(broker.is_serving for broker in run.brokers), "the start of all brokers")
    run.network.doubled = world.chance.choice((0.0, 0.0, 0.02))
    partitions = [*partitions_of(TOPIC, PARTITIONS), (MOVED, 0)]
    admin = Client(world, "admin", run.addresses)
    run.finish(create_topic(admin, TOPIC, PARTITIONS, BROKERS, {}), "creating a topic")
    run.finish(create_topic(admin, MOVED, 1, 2, {"min.insync.replicas": "1"}), "creating a topic")
    for name in ("p1", "p2", "p3"):
        run.producers.append(SimulatedProducer(world, name, run.addresses, run.witness, partitions))
    for number, partition in enumerate(partitions):
        run.producers.append(PipelinedProducer(world, f"q{number}", run.addresses, run.witness, partition))
        reader = SimulatedReader(world, f"r{number}", run.addresses, run.witness, partition)
        committer = SimulatedCommitter(world, f"g{number}", run.addresses, run.witness, partition)
        run.readers.append(reader)
        run.committers.append(committer)
        run.in_background(reader.run())
        run.in_background(committer.run(reader))
    until = world.now + run.fault_seconds
    reassigner = Reassigner(world, "operator", run.addresses, (MOVED, 0), 2)
    run.in_background(reassigner.run())
    run.tree.created.append(lambda path: _depose_at_deletion(run, path, until))
    run.tree.created.append(lambda path: _lose_tree_at_registration(run, path, until))
    short_lived = ShortLivedTopic(world, run.addresses, until, checks.leader)
    run.in_background(short_lived.run())
    promises = GroupPromises(world, run.witness.is_led_by)
    for name in ("m1", "m2", "m3"):
        member = GroupMember(world, name, run.addresses, "workers", promises, partitions)
        run.in_background(member.run())
    sending = [run.client_task(producer.run(until)) for producer in run.producers]
    _fault(run, until)
    world.run_until(lambda: False, until)
    run.network.range = FAST
    run.wait_for(lambda: all(task.done() for task in sending), "the end of all records")
    keys = {partition: (*partition, checks.topic_id(partition[0])) for partition in partitions}
    # A broker that has lost the tree may not know yet that others lead, and tells readers of an earlier end.
    run.wait_for(
        lambda: all(
            len(checks.isr(key)) == BROKERS for partition, key in keys.items() if partition[0] == TOPIC
        ),
        "the return of all brokers",
    )
    check_at_the_end(run, partitions)
    run.finish(reassigner.move(), "the last move")
    run.finish(short_lived.live(), "another life of a topic")
    run.wait_for(
        lambda: all(
            len(checks.isr(key)) == (2 if partition[0] == MOVED else BROKERS)
            for partition, key in keys.items()
        ),
        "the return of all replicas to the ISR",
    )
    for key in keys.values():
        checks.check_isr(key)


def _fault(run: Run, until: float) -> None:
    """Let something bad happen, and more of it later."""
    world, chance = run.world, run.world.chance
    if world.now > until:
        return
    world.later(0.05 + chance.random() * 1.3, _fault, run, until)
    broker = chance.choice(run.brokers)
    what = chance.choice(FAULTS)
    world.fault(what, broker.host)
    if what == "kill":
        broker.kill()
        broker.start_later(chance.random() * 3)
    elif what == "power":
        broker.cut_power_after(chance.choice((1, 3, 10, 30, 100)))
    elif what == "blackout":  # no replica is left that knows what was not synced
        run.witness.at_next_acknowledgement.append(lambda: _black_out(run))
    elif what == "stop":
        broker.stop(lambda: broker.start_later(chance.random() * 2))
    elif what == "network":
        run.network.range = chance.choice((FAST, SLOW))
    elif what == "separate":
        other = chance.choice([each for each in run.brokers if each is not broker])
        _separate(run, [broker.host, other.host], chance.random() * 4)
    elif what == "clients":
        _separate(run, [broker.host, CLIENTS_HOST], chance.random() * 3)
    elif what == "pause":
        seconds = chance.random() * 4
        pause(run, broker, seconds)
        if seconds > SESSION_SECONDS and chance.random() < 0.7:
            broker.expire_session_after(SESSION_SECONDS)
    elif what == "slow disk":
        broker.sync_seconds = chance.choice((0.05, 0.5))
        world.later(chance.random() * 5, _speed_up, broker)
    elif what == "full disk":
        broker.fill_disk(chance.choice((0, 3000, 30_000)))
        world.later(chance.random() * 4, broker.fill_disk, None)
    elif what == "depose":
        _depose(run)
    elif what == "tree":
        broker.lose_tree(chance.random() * 4)
    else:
        broker.expire_session_after(0)


def _black_out(run: Run) -> None:
    """Cut the power of all brokers at once.

    One may come back so late that another one has to lead.
    """
    chance = run.world.chance
    run.world.note("fault", "everything is dark")
    if chance.random() < 0.7:
        chance.choice(run.brokers).away_seconds = chance.uniform(2, 2 + 2 * SESSION_SECONDS)
    for broker in run.brokers:
        broker.cut_power()


def _depose(run: Run) -> None:
    """Let the controller's session expire while its requests to another broker are held back."""
    chance, node = run.world.chance, run.tree.read(znodes.CONTROLLER)
    if node is None:
        return
    controller = znodes.decode_controller(node.data)
    (deposed,) = (each for each in run.brokers if each.node_id == controller)
    deposed.expire_session_after(0.02 + chance.random() * 0.1)
    # From one only: the next controller needs the answers of both others.
    other = chance.choice([each for each in run.brokers if each is not deposed])
    run.network.separate(deposed.host, other.host)
    run.world.later(1 + 4 * chance.random(), run.network.join, deposed.host, other.host)


def _depose_at_deletion(run: Run, path: str, until: float) -> None:
    """At times, depose a controller that is about to order the deletion of a topic."""
    is_due = path == znodes.delete_topic_path(SHORT_LIVED) and run.world.now < until
    if is_due and run.world.chance.random() < 0.5:
        run.world.fault("depose at deletion")
        run.world.later(0, _depose, run)


def _lose_tree_at_registration(run: Run, path: str, until: float) -> None:
    """At times, let a broker lose its tree between its registration and the election."""
    world, chance = run.world, run.world.chance
    for broker in run.brokers if world.now < until and chance.random() < 0.2 else ():
        if path == znodes.broker_path(broker.node_id):
            world.fault("tree at registration", broker.host)
            world.later(chance.random() * 0.02, broker.lose_tree, chance.random() * 4)


def _speed_up(broker: SimulatedBroker) -> None:
    broker.sync_seconds = 0.0


def _separate(run: Run, hosts: list[str], seconds: float) -> None:
    """Hold back what two hosts send to each other, or what one of them sends."""
    one, other = hosts
    ways = [(one, other), (other, one)]
    for way in run.world.chance.choice((ways[:1], ways[1:], ways)):
        run.network.separate(*way)
        run.world.later(seconds, run.network.join, *way)
