"""The CRC-32C of record batches and of snapshots, in C.

The package crc32c looks up the version of its distribution when it is imported. That takes
importlib.metadata, email and argparse: 31 ms of CPU at a start, on a busy machine. So its extension module is
loaded without the package, in 1 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

_NAME: Final = "crc32c._crc32c"


def _extension() -> Any:
    """The extension module; if it is not where it used to be, the package."""
    loaded, package = sys.modules.get(_NAME), find_spec("crc32c")
    if loaded is not None:
        return loaded
    found = None if package is None else PathFinder.find_spec(_NAME, package.submodule_search_locations)
    if found is None or found.loader is None:
        import crc32c

        return crc32c
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


crc32c: Final[Callable[[Any], int]] = _extension().crc32c
