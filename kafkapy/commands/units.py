"""Durations, sizes and times as people write them: `1d`, `64MiB`, `2026-11-29T08:00`.

Values of Kafka's settings are numbers of milliseconds or bytes. `setting_value` reads units for settings
whose name says that they are such a number.
"""

from __future__ import annotations

import contextlib
import re
import time
from datetime import datetime
from fractions import Fraction
from typing import Final

from kafkapy.errors import UserError

_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_BYTES: Final = {
    "b": 1,
    "k": 1024,
    "kb": 1000,
    "kib": 1024,
    "m": 1024**2,
    "mb": 1000**2,
    "mib": 1024**2,
    "g": 1024**3,
    "gb": 1000**3,
    "gib": 1024**3,
    "t": 1024**4,
    "tb": 1000**4,
    "tib": 1024**4,
}
_MOST_MS: Final = 2**63 - 1
_MOST_TOLD: Final = 40
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]+)")
_HAS_UNIT: Final = re.compile(r"\d+(\.\d+)?\s*[a-zA-Z]")
_TIMES: Final = re.compile(r"(\.|^)ms$")
_SIZES: Final = re.compile(r"(\.|^)bytes$|_byte_rate$|^(batch|buffer)\.size$")


def setting_value(name: str, value: str) -> str:
    """A setting's value, with its unit turned into Kafka's number."""
    if not _HAS_UNIT.match(value):
        return value
    if _TIMES.search(name):
        return str(milliseconds(value, name))
    if _SIZES.search(name):
        return str(size(value, name))
    if name.endswith((".minutes", ".hours", ".seconds")):
        unit = {"minutes": 60_000, "hours": 3_600_000, "seconds": 1000}[name.rpartition(".")[2]]
        whole, rest = divmod(milliseconds(value, name), unit)
        if rest:
            raise UserError(f"{name}={value}: is no whole number of {name.rpartition('.')[2]}")
        return str(whole)
    return value


def milliseconds(text: str, about: str) -> int:
    """`1d12h` in milliseconds."""
    return _sum(text, _MS, about, "a duration such as 500ms, 30s, 15m, 12h, 7d or 2w")


def size(text: str, about: str) -> int:
    """`64MiB` in bytes; `k`, `m`, `g`, `t` are powers of 1024, as in Kafka's documents."""
    return _sum(text, _BYTES, about, "a size such as 512B, 64MiB, 1GiB or 500MB")


def instant(text: str, about: str) -> int:
    """Milliseconds since 1970: given so, as ISO 8601 (local without offset), or as `2h` ago."""
    found = _instant(text, about)
    if found is None or abs(found) > _MOST_MS:
        raise UserError(
            f"{about} {text[:_MOST_TOLD]}: expected a time such as 2026-11-29T08:00, or a duration ago such"
            " as 2h"
        )
    return found


def _instant(text: str, about: str) -> int | None:
    if text.isascii() and text.isdecimal():
        return int(text) if len(text) <= len(str(_MOST_MS)) else None
    with contextlib.suppress(ValueError, OverflowError):
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    with contextlib.suppress(UserError):
        return round(time.time() * 1000) - milliseconds(text, about)
    return None


def time_text(milliseconds_: int | None) -> str | None:
    """A time of Kafka's as ISO 8601 in UTC; None for one that is not set."""
    if milliseconds_ is None or milliseconds_ < 0:
        return None
    whole, ms = divmod(milliseconds_, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{ms:03d}Z"


def duration_text(seconds: float) -> str:
    """Seconds for people: `3s`, `2m 5s`, `1d 4h`."""
    rest = round(seconds)
    parts = []
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def size_text(nbytes: float) -> str:
    """Bytes for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} TiB"


def _sum(text: str, units: dict[str, int], about: str, expected: str) -> int:
    parts = _PART.findall(text)
    total = sum(Fraction(number) * units.get(unit.lower(), 0) for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or any(
        unit.lower() not in units for _, unit in parts
    ):
        raise UserError(f"{about}={text}: expected {expected}")
    if total != int(total):
        raise UserError(f"{about}={text}: is not a whole number of its smallest unit")
    return int(total)
