"""The error of `kafkapy export` and `kafkapy import`."""

from __future__ import annotations

from collections.abc import Sequence

from kafkapy.errors import UserError

_SHOWN = 10


class MigrationError(UserError):
    """A directory cannot be exported or imported.

    Nothing was changed, unless the message says so.
    """


def some_of(names: Sequence[str]) -> str:
    """Return the first ten names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
