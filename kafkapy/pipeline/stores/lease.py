"""A lock in a store that has none: a lease, which a driver renews while it lives.

    NAME.lease/1, /2, ...   {"process", "jvm", "host", "machine", "id", "beat", "at", "released"}

Each file is an epoch, and the newest epoch is the driver that may write. A driver takes over by creating the
next epoch, which the store allows to one of those that try: by a put with If-None-Match in S3, by a create
without overwriting elsewhere. Nobody writes a file but the driver that created it. It writes it again every
`RENEWED` seconds, each time with another `beat`.

The next driver takes over at once from an epoch that says `released`, and from one of a process on the same
machine that has ended together with its JVM. In all other cases it must see the same content for `DURATION`
seconds, by its own clock: the clocks of machines need not agree. The lease of the former driver is over by
then, because it counts the same seconds from before its last write. After that it writes no more, even if it
was only suspended: `renew` refuses it, before each commit too. So at most what the store itself was already
asked to do may come later than the next driver's first look.

A new driver deletes the epochs before its own, never the newest. So a driver that was slow to create an epoch
finds a newer one after it, and gives up.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from kafkapy.pipeline.pipeline_error import PipelineError

DURATION: Final = 60.0  # seconds; a JVM whose Python process was killed ends within it
RENEWED: Final = 10.0
_LOOK: Final = 1.0

logger = logging.getLogger(__name__)


class LeaseFiles(Protocol):
    """The files of leases in a store; errors are OSErrors."""

    location: str

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist."""

    def read(self, path: str) -> bytes:
        """The content of a file; FileNotFoundError if there is none."""

    def create(self, path: str, content: bytes) -> bool:
        """Creates a file, unless it exists: of several that try at the same time one gets True."""

    def write(self, path: str, content: bytes) -> None:
        """Writes a file, whether it exists or not."""

    def delete(self, path: str) -> object:
        """Deletes a file, if it exists."""

    def jvm_process(self) -> int:
        """The id of the process that carries out what is asked of the store."""


class Lease:
    """The lease of this process in a folder.

    `clock` counts seconds, `pause` waits for some, and `renewed` renews it after each `renewed_after`.
    """

    def __init__(
        self,
        files: LeaseFiles,
        folder: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
        renewed_after: float = RENEWED,
    ) -> None:
        self._files, self._folder = files, folder
        self._clock, self._pause, self._renewed_after = clock, pause, renewed_after
        self._own = {
            "process": os.getpid(),
            "host": socket.gethostname(),
            "machine": _machine(),
            "id": uuid.uuid4().hex,
        }
        self._epoch = self._beat = 0
        self._until = 0.0
        self._lost = False
        self._renewing = threading.Lock()

    def acquire(self, held: str) -> None:
        """Takes the lease, after waiting for the end of one that is no longer renewed.

        Raises PipelineError with the text `held` if another driver renews it.
        """
        while True:
            epoch, content = self._newest()
            if epoch:
                self._await_end(epoch, content, held)
            began, wanted = self._clock(), self._content()
            path = self._path(epoch + 1)
            # A put whose answer was lost is sent again, and finds the file that it has made.
            created = self._files.create(path, wanted) or _read(self._files, path) == wanted
            if created and self._newest()[0] == epoch + 1:
                self._epoch, self._until = epoch + 1, began + DURATION
                for number in self._epochs():
                    if number < self._epoch:
                        self._files.delete(self._path(number))
                return

    def _await_end(self, epoch: int, content: bytes | None, held: str) -> None:
        """Waits until an epoch is over."""
        began, told = self._clock(), False
        while not _ended(content):
            if self._clock() - began >= DURATION:
                return
            owner = _parsed(content)
            if not told:
                logger.info(
                    "Waiting whether the driver of %s still lives: %s", self._files.location, _named(owner)
                )
                told = True
            self._pause(_LOOK)
            newest, now = self._newest()
            if (newest, now) == (epoch, content):
                continue
            if newest == epoch and _parsed(now).get("released"):
                return
            raise PipelineError(f"{self._files.location}: {held} ({_named(_parsed(now))}); stop that first")

    def renew(self) -> None:
        """Writes that this driver lives.

        Raises PipelineError if it may write no more, because another has taken over or could have done so.
        """
        with self._renewing:
            began = self._clock()
            self._beat += 1
            if not self._lost and began < self._until:
                self._files.write(self._path(self._epoch), self._content())
                newest = max(self._epochs(), default=0)
                # Within the old lease still: until then nobody else could create the next epoch.
                if newest == self._epoch and self._clock() < self._until:
                    self._until = began + DURATION
                    return
            self._lost = True
        raise PipelineError(
            f"{self._files.location}: this driver was silent for more than {DURATION:.0f} seconds, and "
            "another may write the table now; it writes no more; start it again if no other runs"
        )

    def release(self) -> None:
        """Lets the next driver begin at once."""
        with self._renewing:
            if not self._lost:
                self._files.write(self._path(self._epoch), self._content(released=True))

    @contextlib.contextmanager
    def renewed(self) -> Iterator[None]:
        """Renews the lease in a thread, and releases it at the end."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(self._renewed_after):
                try:
                    self.renew()
                except PipelineError:
                    return  # the next commit is refused
                except Exception as error:  # the store or the JVM does not answer; the lease may run out
                    logger.info("%s: the lease cannot be renewed: %s", self._files.location, error)

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(DURATION)
            with contextlib.suppress(Exception):  # the JVM was killed; the next driver waits
                self.release()

    def _content(self, *, released: bool = False) -> bytes:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        told = {**self._own, "jvm": self._files.jvm_process(), "beat": self._beat, "at": now}
        return json.dumps({**told, "released": released}).encode()

    def _newest(self) -> tuple[int, bytes | None]:
        epoch = max(self._epochs(), default=0)
        return epoch, _read(self._files, self._path(epoch)) if epoch else None

    def _epochs(self) -> list[int]:
        return [int(name) for name in self._files.names(self._folder) if name.isdecimal()]

    def _path(self, epoch: int) -> str:
        return f"{self._folder}/{epoch}"


def lease_holder(files: LeaseFiles, folder: str) -> int | None:
    """The id of the process that holds a lease now, as far as the clocks of the machines agree."""
    epochs = [int(name) for name in files.names(folder) if name.isdecimal()]
    content = _read(files, f"{folder}/{max(epochs)}") if epochs else None
    owner = _parsed(content)
    if content is None or _ended(content) or "at" not in owner:
        return None
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(owner["at"])
    return int(owner["process"]) if age.total_seconds() < DURATION else None


def _read(files: LeaseFiles, path: str) -> bytes | None:
    """The content of a file; None if it is being written or was deleted."""
    try:
        return files.read(path)
    except FileNotFoundError:
        return None


def _parsed(content: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(content or b"")
    except ValueError:  # it is being written
        return {}
    return value if isinstance(value, dict) else {}


def _ended(content: bytes | None) -> bool:
    owner = _parsed(content)
    if owner.get("released"):
        return True
    here = owner.get("machine") == _machine() != ""
    return here and not any(_lives(owner[name]) for name in ("process", "jvm"))


def _named(owner: dict[str, Any]) -> str:
    return f"process {owner.get('process', 'unknown')} on {owner.get('host', 'an unknown host')}"


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _machine() -> str:
    """The start of this machine and the space of its process ids.

    It is empty where nothing tells them. The name of a host is not enough: a container that is started
    elsewhere has that of the former one.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
