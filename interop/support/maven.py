"""Jars by Maven coordinates, kept in `.cache/` of the checkout.

`copy_jars` writes a one-off pom with the coordinates as dependencies and lets Maven's
`dependency:copy-dependencies` resolve them, from the repositories of the user's own Maven settings. A folder
is complete only if its `.complete` mark names the same coordinates; otherwise the download is repeated. A
lock file lets two runs ask for the same jars at the same time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from interop.support.locked import locked

CACHE = Path(__file__).resolve().parents[2] / ".cache"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkapy</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = (
    "    <dependency><groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId>"
    "<version>{0.version}</version>{classifier}{exclusions}</dependency>"
)
_EXCLUSION = "<exclusion><groupId>{0}</groupId><artifactId>{1}</artifactId></exclusion>"


class JarsUnavailableError(Exception):
    """The jars are not here and cannot be had; the message says what is missing."""


class Coordinates(NamedTuple):
    group: str
    artifact: str
    version: str
    exclusions: tuple[tuple[str, str], ...] = ()
    classifier: str = ""

    def __str__(self) -> str:
        end = f":{self.classifier}" if self.classifier else ""
        return f"{self.group}:{self.artifact}:{self.version}{end}"


def java_missing() -> str | None:
    """Why no Java program can run here, or None."""
    return None if shutil.which("java") else "java is not on the PATH (a Java 17 runtime is needed)"


def copy_jars(coordinates: Sequence[Coordinates], target: Path) -> Path:
    """The folder `target` with the jars of `coordinates` and all that they need at run time.

    Raises JarsUnavailableError with one line that says what to do.
    """
    mark, wanted = target / ".complete", "\n".join(map(str, coordinates))
    if mark.exists() and mark.read_text() == wanted:
        return target
    if missing := java_missing():
        raise JarsUnavailableError(missing)
    if not shutil.which("mvn"):
        raise JarsUnavailableError(f"mvn is not on the PATH: Maven is needed once to fetch {coordinates[0]}")
    with locked(target):
        if not (mark.exists() and mark.read_text() == wanted):
            _copy(coordinates, target)
            mark.write_text(wanted)
    return target


def _copy(coordinates: Sequence[Coordinates], target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        pom = Path(folder, "pom.xml")
        pom.write_text(_POM.format(dependencies="\n".join(map(_dependency, coordinates))))
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        # What C2 compiles takes half of Maven's time, and is hardly used.
        flags = f"-XX:TieredStopAtLevel=1 {os.environ.get('MAVEN_OPTS', '')}"
        run = subprocess.run(
            command, env={**os.environ, "MAVEN_OPTS": flags}, capture_output=True, text=True, check=False
        )
    if run.returncode:
        errors = [line for line in run.stdout.splitlines() if "ERROR" in line]
        raise JarsUnavailableError(
            f"mvn could not fetch {coordinates[0]}: {(errors or ['no error line'])[0]}"
        )


def _dependency(coordinates: Coordinates) -> str:
    exclusions = "".join(_EXCLUSION.format(*pair) for pair in coordinates.exclusions)
    return _DEPENDENCY.format(
        coordinates,
        classifier=f"<classifier>{coordinates.classifier}</classifier>" if coordinates.classifier else "",
        exclusions=f"<exclusions>{exclusions}</exclusions>" if exclusions else "",
    )
