"""JSON as schemas are written in it."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

_STRING_OR_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def loaded(text: str) -> Any:
    """The value of a text.

    Raises:
        ValueError: it is not JSON, nested too deeply, or has what cannot be written as JSON in UTF-8.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if _SURROGATE.search(text):
            normalized(value).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("a text has half of a pair of surrogates") from None
    return value


def without_spaces(text: str) -> str:
    """A JSON text without the white space between its tokens; all else is as it was written."""
    return _STRING_OR_SPACE.sub(lambda found: found.group(1) or "", text)


def normalized(value: Any) -> str:
    """One spelling of a JSON value: names sorted, no white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{number[:20]} is too large for a number")
    return value
