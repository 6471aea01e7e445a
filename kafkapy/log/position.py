"""A position in a topic, as Python programs name it.

It is "earliest", "latest", a time (epoch milliseconds as int, a datetime or its ISO text; UTC unless it names
a zone) or offsets as {partition: offset}. Offsets must name every partition; -2 is earliest and -1 latest.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from kafkapy.errors import UserError

Position: TypeAlias = "str | int | datetime | Mapping[int, int]"

_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(name: str, time: str | int | datetime) -> int:
    """Return a time in milliseconds since 1970, rounded up.

    The same records are at or after both.

    Raises:
        UserError: the text is no time; `name` is what the caller calls it.
    """
    if isinstance(time, int):
        return time
    try:
        moment = time if isinstance(time, datetime) else datetime.fromisoformat(time)
    except ValueError:
        raise UserError(
            f"{name}={time!r}: use earliest, latest, a time such as 2026-01-31T12:00:00 or offsets"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return -((_1970 - moment) // timedelta(milliseconds=1))
