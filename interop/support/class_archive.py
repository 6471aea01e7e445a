"""Archives of the classes that a Java program uses: it then starts in half the time.

At its end Java writes an archive of what it has loaded (class data sharing, dynamic archives of Java 13 and
later). It silently ignores one that does not fit its class path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from interop.support.locked import locked

_QUIET = "-Xlog:cds*=off"


class ClassArchive:
    """The archive in `folder` for this Java and for all that it `fits`, such as a class path."""

    def __init__(self, folder: Path, *fits: object) -> None:
        java = os.path.realpath(shutil.which("java") or "java")
        digest = hashlib.sha256(" ".join(map(str, (java, *fits))).encode()).hexdigest()[:16]
        self.path = folder / f"classes-{digest}.jsa"

    def flags(self) -> tuple[str, ...]:
        """The flags of a Java that uses the archive; none if it has not been made."""
        return (f"-XX:SharedArchiveFile={self.path}", _QUIET) if self.path.exists() else ()

    def make(self, run: Callable[[Path, tuple[str, ...]], object]) -> None:
        """Make the archive, if it does not exist, by a `run` of Java to its end.

        The run gets a folder for its files, and flags. If it fails, as it may on a busy machine, there is no
        archive, and Java starts without one.
        """
        if self.path.exists():
            return
        with locked(self.path):
            if self.path.exists():
                return
            with tempfile.TemporaryDirectory(dir=self.path.parent, ignore_cleanup_errors=True) as folder:
                made = Path(folder, self.path.name)
                try:
                    run(Path(folder), (f"-XX:ArchiveClassesAtExit={made}", _QUIET))
                except Exception as error:
                    warnings.warn(f"No archive of classes {self.path}: {error}", stacklevel=2)
                    return
                if made.exists():
                    made.rename(self.path)
