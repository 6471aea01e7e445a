"""Which of two twins is used: the one in C, or the one in Python.

The compiled one is used if it was built, unless KAFKAPY_PURE_PYTHON is set and not empty in the environment.
"""

from __future__ import annotations

import importlib
import os
from typing import TypeVar, cast

T = TypeVar("T")

PROTOCOL_PARTS = "kafkapy.protocol._walker"


def compiled_twin(module: str, name: str, purely: T) -> T:
    """The object of this name in a compiled module; its twin `purely` if there is none."""
    if os.environ.get("KAFKAPY_PURE_PYTHON"):
        return purely
    try:
        return cast("T", getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError):
        return purely


def missing_parts(modules: tuple[str, ...]) -> list[str]:
    """Those of this package's compiled part and `modules` that cannot be imported.

    None is missing if KAFKAPY_PURE_PYTHON asks for their twins.
    """
    if os.environ.get("KAFKAPY_PURE_PYTHON"):
        return []
    missing = []
    for module in (PROTOCOL_PARTS, *modules):
        try:
            importlib.import_module(module)
        except ImportError:
            missing.append(module)
    return missing
