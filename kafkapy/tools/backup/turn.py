"""Whose turn it is in a store: one command writes to it at a time.

    turns/5f2c….json    which command, on which machine, and when it was last known to run

Each announces itself first, and then looks for others. So of two that come together at least one sees the
other, and gives up; it may be that both do. A turn ends when its file goes. If the process is gone without
that, it is over as well: on the same machine this is seen at once, of another machine after LASTS_SECONDS, in
which a command at work announces itself many times. The clocks of the machines must agree so far.

Crash story: a command that was killed leaves its file, which the next one removes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkapy.tools.backup.store import BackupError, Store

TURNS: Final = "turns"
LASTS_SECONDS: Final = 600
"""How long a command that cannot be asked is taken to be at work."""

_AGAIN_SECONDS: Final = 30.0
_SEEN_SECONDS: Final = 1.0
"""How long a look at the store tells that the turn is still this command's."""


class Turn:
    """The turn of this command."""

    def __init__(self, store: Store, command: str) -> None:
        self._store, self._command = store, command
        self._name = f"{os.urandom(16).hex()}.json"
        self._seen = 0.0
        """When it was last seen in the store, by the clock that counts a suspended machine's time too."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="kafkapy-turn", daemon=True)

    def require(self) -> None:
        """Raise BackupError if another command has taken this one for dead."""
        if abs(time.time() - self._seen) < _SEEN_SECONDS:
            return
        if self._name not in self._store.names(TURNS):
            raise BackupError(
                f"{self._command} was held up for so long that another command has taken its turn: run it"
                " again"
            )
        self._seen = time.time()

    def announce(self) -> None:
        """Tell others that this command is at work."""
        told = {
            "command": self._command,
            "host": socket.gethostname(),
            "machine": _machine(),
            "pid": os.getpid(),
            "at_ms": time.time_ns() // 1_000_000,
        }
        self._store.write(f"{TURNS}/{self._name}", json.dumps(told).encode())

    def require_alone(self) -> None:
        """Raise BackupError if another command is at work; forget those that have ended."""
        names = self._store.names(TURNS)
        for name in names:
            if name == self._name or not name.endswith(".json"):
                continue
            try:
                other = json.loads(self._store.read(f"{TURNS}/{name}"))
                is_over = _is_over(other["machine"], other["pid"], other["at_ms"])
                who = f"{other['command']} on {other['host']}, process {other['pid']},"
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                raise BackupError(f"{TURNS}/{name} is damaged: remove it if no command is at work") from None
            if not is_over:
                raise BackupError(
                    f"{who} is at work there: run this again when it has ended, and if its machine is gone,"
                    f" remove {TURNS}/{name}"
                )
            for each in names:
                if each.startswith(name):  # with what it was writing when it ended
                    self._store.remove(f"{TURNS}/{each}")

    def begin(self) -> None:
        """Continue telling others."""
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._store.remove(f"{TURNS}/{self._name}")

    def _go_on(self) -> None:
        while not self._is_over.wait(_AGAIN_SECONDS):
            with contextlib.suppress(Exception):  # the next time, or what the command itself does, says it
                self.require()
                self.announce()


@contextlib.contextmanager
def turn(store: Store, command: str) -> Iterator[Turn]:
    """This command's turn to write to a store.

    Raises:
        BackupError: it is another's.
        OSError: the store cannot be used.
    """
    own = Turn(store, command)
    own.announce()
    try:
        own.require_alone()
        own.begin()
        yield own
    finally:
        own.end()


def _is_over(machine: str, pid: int, at_ms: int) -> bool:
    if machine and machine == _machine():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
    return time.time_ns() // 1_000_000 - at_ms > LASTS_SECONDS * 1000


def _machine() -> str:
    """A name for the processes that this one sees: those of a boot, in a namespace; or ""."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""
