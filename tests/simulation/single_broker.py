"""A scene with one broker: it is killed, loses its power, stops, and its network is slow.

What clients were promised must hold through all of it (tests/promises): nothing acknowledged is lost, doubled
or reordered, no offset changes its content, the high watermark never goes back, and committed offsets stay.
"""

from __future__ import annotations

from typing import Final

from kafkapy.virtual.broker import SimulatedBroker
from kafkapy.virtual.network import FAST, SLOW
from tests.simulation.clients import (
    Client,
    SimulatedCommitter,
    SimulatedProducer,
    SimulatedReader,
    create_topic,
)
from tests.simulation.pipelined_producer import PipelinedProducer
from tests.simulation.run import CLIENTS_HOST, Run, partitions_of
from tests.simulation.settings import random_settings

TOPIC: Final = "orders"
PARTITIONS: Final = 2


def single_broker(run: Run) -> None:
    """One broker with faults for a while, then without; raises SimulationError."""
    world = run.world
    broker = run.add_broker(1, {**random_settings(world.chance), "offsets.topic.replication.factor": "1"})
    partitions = partitions_of(TOPIC, PARTITIONS)
    admin = Client(world, "admin", run.addresses)
    run.finish(create_topic(admin, TOPIC, PARTITIONS, 1, {}), "creating a topic")
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
    sending = [run.client_task(producer.run(until)) for producer in run.producers]
    _fault(run, broker, until)
    world.run_until(lambda: False, until)
    run.network.range = FAST
    run.wait_for(lambda: all(task.done() for task in sending), "the end of all records")
    check_at_the_end(run, partitions)


def check_at_the_end(run: Run, partitions: list[tuple[str, int]]) -> None:
    """Read everything again, and ask for every committed offset."""
    run.end_background()
    for number, partition in enumerate(partitions):
        last = SimulatedReader(run.world, f"last{number}", run.addresses, run.witness, partition)
        run.finish(last.read_all(), f"reading {partition} to its end")
    for committer in run.committers:
        run.finish(committer.fetch(), f"the committed offset of {committer.name}")
    run.witness.judge()


def _fault(run: Run, broker: SimulatedBroker, until: float) -> None:
    """Let something bad happen, and more of it later."""
    world, chance = run.world, run.world.chance
    if world.now > until:
        return
    world.later(0.05 + chance.random() * 1.2, _fault, run, broker, until)
    what = chance.choice(("kill", "power", "power", "stop", "network", "silence", "pause"))
    world.fault(what)
    if what == "kill":
        broker.kill()
        broker.start_later(chance.random())
    elif what == "power":
        if chance.random() < 0.5:
            broker.cut_power_after(chance.choice((1, 3, 10, 30, 100)))
        else:
            run.witness.at_next_acknowledgement.append(broker.cut_power)
    elif what == "stop":
        broker.stop(lambda: broker.start_later(chance.random()))
    elif what == "network":
        run.network.range = chance.choice((FAST, SLOW))
    elif what == "silence":
        ways = [(CLIENTS_HOST, broker.host), (broker.host, CLIENTS_HOST)]
        for way in chance.choice((ways[:1], ways[1:], ways)):
            run.network.separate(*way)
            world.later(chance.random() * 3, run.network.join, *way)
    else:
        pause(run, broker, chance.random() * 2)


def pause(run: Run, broker: SimulatedBroker, seconds: float) -> None:
    """Stop the process of a broker for a while, as a long collection or the system does."""
    loop = broker.loop
    if loop is not None:
        loop.is_paused = True

        def go_on() -> None:
            loop.is_paused = False

        run.world.later(seconds, go_on)
