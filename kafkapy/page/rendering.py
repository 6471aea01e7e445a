"""Templates as HTML: what comes from the cluster is escaped, and made visible."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kafkapy.commands.units import size_text, time_text

_FOLDER: Final = Path(__file__).parent
UNKNOWN: Final = "-"
_CONTROL_PICTURES: Final = 0x2400
# Control characters other than tabs and line feeds, and those that turn the direction of text: with them, a
# name could look like another one.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "combined": combined,
        "count": count,
        "part": part,
        "query": query,
        "size": _size,
        "time": _time,
        "visible": visible,
    }
    return environment


def rendered(template: str, **values: Any) -> str:
    """A template with its values."""
    return _environment().get_template(template).render(**values)


def static(name: str) -> bytes:
    """A file of `static/`."""
    return (_FOLDER / "static" / name).read_bytes()


def visible(text: str) -> str:
    """A text without characters that cannot be seen: pictures or names are in their place."""
    return _INVISIBLE.sub(_picture, text)


def count(number: int | None) -> str:
    """A number with groups of digits; a dash for one that is not known."""
    return UNKNOWN if number is None else f"{number:,}"


def combined(values: dict[str, Any], **others: Any) -> dict[str, Any]:
    """The values of an address with others."""
    return values | others


def part(text: str) -> str:
    """A text as a part of a path."""
    return quote(text, safe="")


def query(values: dict[str, Any]) -> str:
    """The query of an address, without values that are not set."""
    given = {name: value for name, value in values.items() if value not in (None, "", False)}
    return "?" + urlencode(given) if given else ""


def _size(nbytes: int | None) -> str:
    return UNKNOWN if nbytes is None else size_text(nbytes)


def _time(milliseconds: int | None) -> str:
    return time_text(milliseconds) or UNKNOWN


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return f"<{unicodedata.name(chr(code), f'U+{code:04X}')}>"
