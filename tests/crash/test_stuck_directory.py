"""A frozen file system keeps nobody waiting whose records are in another log directory.

The freeze is that of a snapshot: writes block in the kernel, nothing interrupts them, and syncs succeed.

Needs root and a kernel that mounts disk images; skipped with the reason elsewhere.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.crash.load import RECONNECT, create_topic
from tests.crash.loop_disk import LoopDisk, why_not
from tests.network.raw_client import eventually
from tests.servers.kafkapy_process import KafkapyProcess

PARTITIONS = 4
PACE_SECONDS = 0.01
"""Between two records of a producer: a freeze may begin between two writes that come one after the other."""
ENOUGH = 100
MEGABYTES = 64
TRIES = 3


class Sender:
    """Sends records to a partition one by one, in a thread, until it is stopped."""

    def __init__(self, servers: str, partition: int) -> None:
        self._partition = partition
        self._producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 0, "enable.idempotence": True, **RECONNECT}
        )
        self._stopping = threading.Event()
        self.offsets: list[int] = []
        self.errors: list[KafkaError] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(PACE_SECONDS):
            self._producer.produce("topic", b"value", partition=self._partition, on_delivery=self._delivered)
            self._producer.flush()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None:
            self.errors.append(error)
        elif offset is not None:
            self.offsets.append(offset)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def more(senders: list[Sender], count: int) -> Callable[[], bool]:
    """Whether each of them has had `count` more records acknowledged since now."""
    wanted = [len(sender.offsets) + count for sender in senders]
    return lambda: all(len(each.offsets) >= count for each, count in zip(senders, wanted, strict=True))


@contextlib.contextmanager
def noticed_freeze(disk: LoopDisk, others: list[Sender]) -> Iterator[None]:
    """A freeze during which the other directory takes records.

    One that begins between a look of the broker and its write is not noticed (storage/disk/write_probe.py).
    That happens on a busy machine. All wait until its end, and the next one is noticed.
    """
    for attempt in range(TRIES):
        with disk.frozen():
            try:
                eventually(more(others, ENOUGH), "the other directory takes records", 30)
            except AssertionError:
                if attempt == TRIES - 1:
                    raise
                continue
            yield
            return


@pytest.mark.slow
def test_a_frozen_directory_keeps_no_other_waiting_and_loses_nothing(tmp_path: Path) -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with LoopDisk(tmp_path / "disk", megabytes=MEGABYTES) as disk:
        calm = tmp_path / "calm"
        with KafkapyProcess(tmp_path, data=Path(f"{calm},{disk.path}/data")) as broker:
            servers = broker.bootstrap_servers
            create_topic(servers, "topic", PARTITIONS, {})
            senders = [Sender(servers, partition) for partition in range(PARTITIONS)]
            eventually(more(senders, 1), "every partition takes records")
            others = [each for index, each in enumerate(senders) if (calm / f"topic-{index}").exists()]
            stuck = [each for each in senders if each not in others]
            assert len(others) == len(stuck) == PARTITIONS // 2
            with noticed_freeze(disk, others):
                AdminClient({"bootstrap.servers": servers, **RECONNECT}).list_topics(timeout=30)
                create_topic(servers, "new", 1, {})
                eventually((calm / "new-0").exists, "the new topic has its files")
            eventually(more(stuck, ENOUGH), "the directory takes records again")
            for sender in senders:
                sender.stop()
                assert sender.errors == []
                assert sender.offsets == list(range(len(sender.offsets)))
    text = broker.log_path.read_text()
    assert text.count("takes no writes at present") == text.count("takes writes again") == 1
