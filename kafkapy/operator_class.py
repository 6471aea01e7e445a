"""The operator's own classes, which settings name as `module:Class`."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any, Final

PYTHON_CLASS: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A Python class: `module:Class`."""


class UnusableClassError(Exception):
    """A class cannot be used; the message is one line for the operator."""


def find_class(setting: str, name: str, kind: type) -> Any:
    """The class that `setting` names, which is a subclass of `kind`.

    Raises:
        UnusableClassError: it cannot be loaded, or is of another kind.
    """
    module_name, _, class_name = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        raise UnusableClassError(
            f"{setting}={name}: there is no Python module {missing}; install it in the environment of the"
            " broker, or name its folder in PYTHONPATH"
        ) from None
    except BaseException as error:  # SystemExit too: it is the operator's code
        raise UnusableClassError(
            f"{setting}={name}: the module {module_name} cannot be imported: {one_line(error)}; mend it, or"
            " remove the setting"
        ) from None
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if not inspect.isclass(found):
        raise UnusableClassError(
            f"{setting}={name}: the module {module_name} has no class {class_name}; name one"
        )
    if not issubclass(found, kind):
        raise UnusableClassError(
            f"{setting}={name}: {class_name} is not a subclass of {kind.__name__}; derive it from"
            f" {kind.__module__}.{kind.__name__}"
        )
    return found


def one_line(error: BaseException) -> str:
    """The error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
