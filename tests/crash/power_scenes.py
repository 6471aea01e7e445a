"""Power cuts at moments that are hard to hit: first start, topic creation, stop, recovery.

Each scene cuts the power, brings the disk back, starts the broker, and checks what clients see.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.load import RECONNECT, Committer, RecordingProducer, create_topic, random_value, read_pass
from tests.crash.loop_disk import LoopDisk
from tests.promises.checker import check
from tests.promises.history import Acked, EndOffset, History, Partition
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

Scene = Callable[[Path, random.Random], int]
"""Runs once in a folder, and returns how many records were acknowledged."""


def broker_on(disk: LoopDisk, folder: Path, settings: dict[str, str] | None = None) -> KafkapyProcess:
    """A broker with its data on the disk, and its output elsewhere."""
    return KafkapyProcess(folder, properties=settings, data=disk.path / "data")


def lose_power(disk: LoopDisk, broker: ServerProcess) -> None:
    """The machine goes down and comes up again, without its broker.

    First the broker stops, as with its machine: an fdatasync that races the cut may return success for what
    is gone (ext4, Linux 6.18), and a broker that lives a moment longer would acknowledge it.
    """
    broker.freeze()
    disk.cut_power()
    broker.kill()
    disk.restore_power()


def first_start(folder: Path, chance: random.Random) -> int:
    """Cut while the broker starts for the first time, or right after."""
    with LoopDisk(folder) as disk, broker_on(disk, folder).killed_at_end() as broker:
        broker.launch()
        time.sleep(chance.uniform(0.1, 1.2))
        lose_power(disk, broker)
        broker.start()
        return _use_and_judge(broker, [], "after")


def topic_creation(folder: Path, chance: random.Random) -> int:
    """Cut while a topic is created: one whose creation was acknowledged is there."""
    with LoopDisk(folder) as disk, broker_on(disk, folder) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **RECONNECT})
        admin.list_topics(timeout=30)
        created = admin.create_topics([NewTopic("topic", 3, 1)], request_timeout=30)["topic"]
        time.sleep(chance.uniform(0.0, 0.03))
        acknowledged = created.done() and created.exception() is None
        lose_power(disk, broker)
        broker.start()
        found = admin.list_topics(timeout=30).topics
        if acknowledged:
            assert "topic" in found, "the creation of a topic was acknowledged and is forgotten"
        if "topic" in found:
            assert len(found["topic"].partitions) == 3, found["topic"].partitions
        return _use_and_judge(broker, [], "after", partitions=3)


def topic_deletion(folder: Path, chance: random.Random) -> int:
    """Cut when the deletion of a topic is acknowledged: the topic and its logs stay deleted."""
    with LoopDisk(folder) as disk, broker_on(disk, folder) as broker:
        records = _use_and_judge(broker, [], "before")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **RECONNECT})
        admin.delete_topics(["topic"], request_timeout=30)["topic"].result(30)
        lose_power(disk, broker)
        broker.start()
        assert "topic" not in admin.list_topics(timeout=30).topics
        assert not list(broker.data.glob("topic-[01]")), "the logs of a deleted topic are back"
        return records


def clean_shutdown(folder: Path, chance: random.Random) -> int:
    """Cut while the broker stops cleanly, or right after."""
    with LoopDisk(folder) as disk, broker_on(disk, folder) as broker:
        history: History = []
        _use_and_judge(broker, history, "before")
        broker.process.terminate()
        time.sleep(chance.uniform(0.0, 0.5))
        lose_power(disk, broker)
        broker.start()
        return _use_and_judge(broker, history, "after")


def recovery(folder: Path, chance: random.Random) -> int:
    """Cut under load, again while the broker recovers, and again after it has served a reader."""
    with LoopDisk(folder) as disk, broker_on(disk, folder) as broker:
        history: History = []
        _use_and_judge(broker, history, "before", rest=False)
        lose_power(disk, broker)
        broker.launch()
        time.sleep(chance.uniform(0.1, 0.8))
        lose_power(disk, broker)
        broker.start()
        read_pass(broker.bootstrap_servers, "between", {("topic", 0): 0, ("topic", 1): 0}, history)
        lose_power(disk, broker)
        broker.start()
        return _use_and_judge(broker, history, "after")


def relaxed_flush(folder: Path, chance: random.Random) -> int:
    """Cut with flush.messages set: at most so many of the newest records may be lost."""
    window, partition = 50, ("relaxed", 0)
    with LoopDisk(folder) as disk, broker_on(disk, folder) as broker:
        history: History = []
        create_topic(broker.bootstrap_servers, "relaxed", 1, {"flush.messages": str(window)})
        producer = RecordingProducer("p", broker.bootstrap_servers, history, idempotent=False)
        for _ in range(chance.randrange(200, 900)):
            producer.send(partition, random_value(chance, 2000))
        producer.flush()
        lose_power(disk, broker)
        broker.start()
        acked = [event.offset for event in history if isinstance(event, Acked)]
        after: History = list(history)
        end = read_pass(broker.bootstrap_servers, "after", {partition: 0}, after)[partition]
        assert end > max(acked) - window, f"{max(acked) + 1 - end} of {len(acked)} records are lost"
        # What is below the end is judged as if nothing else had been acknowledged.
        kept = [event for event in after if not (isinstance(event, Acked) and event.offset >= end)]
        findings = check(kept)
        assert not findings, "\n".join(map(str, findings[:10]))
        return end


SCENES: dict[str, Scene] = {
    "first start": first_start,
    "topic creation": topic_creation,
    "topic deletion": topic_deletion,
    "clean shutdown": clean_shutdown,
    "recovery": recovery,
    "relaxed flush": relaxed_flush,
}


def _use_and_judge(
    broker: KafkapyProcess, history: History, name: str, *, partitions: int = 2, rest: bool = True
) -> int:
    """Produce, commit, read and check everything; return how many records were acknowledged.

    The topic is created if it is missing. Without `rest`, some records are not acknowledged yet.
    """
    chance = random.Random(f"{name} {len(history)}")
    places: list[Partition] = [("topic", index) for index in range(partitions)]
    servers = broker.bootstrap_servers
    create_topic(servers, "topic", partitions, {})
    producer = RecordingProducer(f"p-{name}", servers, history, idempotent=True)
    for _ in range(200):
        producer.send(chance.choice(places), random_value(chance, 3000))
    producer.flush()
    ends = read_pass(servers, f"reader-{name}", dict.fromkeys(places, 0), history)
    committer = Committer("group", servers, history)
    for place in places:
        committer.fetch(place)
        committer.commit(place, ends[place])
        committer.fetch(place)
    committer.close()
    if not rest:
        late = RecordingProducer(f"late-{name}", servers, history, idempotent=True)
        for _ in range(300):
            late.send(chance.choice(places), random_value(chance, 3000))
        late.drop()
    findings = check(history)
    assert not findings, "\n".join(map(str, findings[:10]))
    assert any(isinstance(event, EndOffset) for event in history)
    return sum(isinstance(event, Acked) for event in history)
