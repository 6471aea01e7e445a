"""An archive of kafkapy and its dependencies, for the executors of a cluster.

    kafkapy/, pyarrow/, numpy/, ...    the packages that are installed here, with their compiled parts
    pyarrow-26.0.1.dist-info/, ...     and what is known of them

Spark unpacks an archive of `spark.archives` into each executor's working directory, and PYTHONPATH lets the
workers find it. It has neither Python nor pyspark, which the machines of a cluster have: it fits a Python of
the same minor version, on the same kind of machine. Zip files for `--py-files` would not do, since compiled
modules cannot be imported from them.

What is packed is what is installed, so that executors run what the driver runs, and no network is needed. A
requirement that is not installed is not needed here.
"""

from __future__ import annotations

import contextlib
import os
import re
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from kafkapy.errors import UserError

FOLDER: Final = "kafkapy-packages"
"""The name of the folder in an executor's working directory."""

_OURS: Final = "kafkapy-broker"
_OF_THE_CLUSTER: Final = ("pyspark", "py4j")
_REQUIREMENT: Final = re.compile(r"([\w.-]+)\s*(?:\[([^]]*)\])?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")


def pack(archive: Path) -> int:
    """Write the archive, and return its size in bytes.

    It is written beside its place and then renamed.

    Raises:
        UserError: the place cannot be written, or kafkapy is not installed.
    """
    partial = archive.with_name(f"{archive.name}.partial")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(partial, "w:gz", compresslevel=1, dereference=True) as written:
            for name, path in sorted(packed_files().items()):
                written.add(path, name, recursive=False)
        partial.replace(archive)
        return archive.stat().st_size
    except OSError as error:
        raise UserError(
            f"{archive} cannot be written ({error.strerror or error}); name another file"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def settings(archive: Path) -> dict[str, str]:
    """Return the settings of Spark that bring the archive to executors."""
    return {
        "spark.archives": f"{archive.absolute()}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": f"./{FOLDER}",
    }


def packed_files() -> dict[str, Path]:
    """Return the files to pack, by their names in the archive."""
    files = {}
    for found in _distributions():
        if found.name == _OURS:
            continue  # A checkout's list has other files than an installation's.
        for file in found.files or ():
            if ".." not in file.parts:
                files[str(file)] = Path(str(found.locate_file(file)))
    package = Path(__file__).parents[1]
    for folder, _, names in os.walk(package, followlinks=True):
        for name in names:
            files[str(Path(folder, name).relative_to(package.parent))] = Path(folder, name)
    return {
        name: path for name, path in files.items() if not name.endswith((".pyc", ".pyi")) and path.is_file()
    }


def _distributions() -> Iterator[Distribution]:
    """Yield kafkapy with what its Spark code needs, and what that needs."""
    known: set[str] = set()
    wanted = [(_OURS, {"spark"})]
    while wanted:
        name, extras = wanted.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        if name in known or name in _OF_THE_CLUSTER:
            continue
        known.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if name == _OURS:
                raise UserError(
                    f"{_OURS} is not installed here; pip install it with its extra spark"
                ) from None
            continue
        yield found
        for requirement in found.requires or ():
            extra = _EXTRA.search(requirement)
            if (named := _REQUIREMENT.match(requirement)) and (extra is None or extra[1] in extras):
                wanted.append((named[1], set(filter(None, re.split(r"[\s,]+", named[2] or "")))))
