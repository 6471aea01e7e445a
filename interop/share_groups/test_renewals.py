"""Java's KafkaShareConsumer renews the lock of a record that it takes long over (KIP-1222)."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Final

import pytest

from interop.conftest import MakeTopic
from interop.share_groups.conftest import MakeGroup
from interop.share_groups.test_share_consumers import produce
from interop.share_groups.workers import Said, Worker
from interop.support.kafka_jars import program_command
from interop.support.waiting import wait_until

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

PROGRAM: Final = Path(__file__).with_name("ShareHolder.java")
LOCK_SECONDS: Final = 15
"""The shortest lock of a record by default."""


class Holder:
    """A ShareHolder.java; a context manager that kills it."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str, *, renewing: int) -> None:
        """It renews the lock for so many seconds."""
        arguments = [bootstrap_servers, group, topic, str(renewing)]
        self._process = subprocess.Popen(
            [*program_command(PROGRAM), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, name="a holder's output")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.strip())

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait(60)
        self._reader.join(30)


def test_a_lock_lasts_as_long_as_it_is_renewed(
    bootstrap_servers: str, make_topic: MakeTopic, make_group: MakeGroup
) -> None:
    topic = make_topic()
    group = make_group(**{"share.record.lock.duration.ms": str(LOCK_SECONDS * 1000)})
    produce(bootstrap_servers, topic, [1])
    with Holder(bootstrap_servers, group, topic, renewing=LOCK_SECONDS + 8) as holder:
        wait_until(lambda: "renewed" in holder.said, timeout=60)
        with Worker(bootstrap_servers, group, topic) as worker:
            wait_until(lambda: "silent" in holder.said, timeout=90)
            assert not worker.said, "the record is locked for the one that holds it"
            assert set(holder.said) == {"holds 1", "renewed", "silent"}, "it is the same delivery"
            wait_until(lambda: bool(worker.said), timeout=60)
            assert worker.said == [Said(0, 0, 2, 1, "ACCEPT")]
