"""When the power is cut, the broker is not there to see it.

It acknowledges nothing from that moment on.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.crash.loop_disk import LoopDisk
from tests.crash.power_scenes import lose_power
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import FROZEN, STOPPED

BUSY = """
import os, sys, threading

def write(number):
    fd = os.open(f"{sys.argv[3]}-{number}", os.O_RDWR | os.O_CREAT)
    while True:
        os.pwrite(fd, b"x" * 4096, 0)
        os.fdatasync(fd)
        sum(range(10_000))

for number in range(4):
    threading.Thread(target=write, args=(number,)).start()
"""


SECONDS = 5


class WatchedDisk(LoopDisk):
    """No disk: notes what a broker does when the power is cut."""

    def __init__(self, broker: KafkapyProcess) -> None:
        self._broker = broker
        self.states: set[str] = set()

    def cut_power(self) -> None:
        """Note the states, once no thread is on its way out of a system call."""
        deadline = time.monotonic() + SECONDS
        while (states := self._broker.thread_states()) - FROZEN and time.monotonic() < deadline:
            pass
        self.states = states

    def restore_power(self) -> None:
        pass


def test_no_thread_of_the_broker_computes_when_the_power_is_cut(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path, data=tmp_path / "file", program=("-c", BUSY)).killed_at_end() as broker:
        broker.launch()
        deadline = time.monotonic() + 30
        while not (tmp_path / "file-3").exists():
            assert time.monotonic() < deadline
        disk = WatchedDisk(broker)
        lose_power(disk, broker)
        assert disk.states <= FROZEN, disk.states
        assert disk.states & STOPPED, disk.states  # threads that compute might all be in system calls
        assert not broker.running


def test_a_broker_that_has_ended_may_lose_its_power_too(tmp_path: Path) -> None:
    with KafkapyProcess(tmp_path, program=("-c", "")).killed_at_end() as broker:
        broker.launch()
        assert broker.wait(30) == 0
        lose_power(WatchedDisk(broker), broker)
