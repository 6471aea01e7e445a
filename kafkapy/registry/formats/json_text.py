"""JSON as schemas are written in it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_STRING_OR_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def loaded(text: str) -> Any:
    """The value of a text; raises ValueError for one that is not JSON, or nested too deeply."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def without_spaces(text: str) -> str:
    """A JSON text without the white space between its tokens; all else is as it was written."""
    return _STRING_OR_SPACE.sub(lambda found: found.group(1) or "", text)


def normalized(value: Any) -> str:
    """One spelling of a JSON value: names sorted, no white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
