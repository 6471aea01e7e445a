"""Partitions that an argument or an option names: `orders`, `orders:0` or `orders:0,2`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkapy.commands.options import Session
from kafkapy.errors import UserError


def named(session: Session, texts: Iterable[str]) -> list[Any]:
    """The partitions, each once; raises UserError for one that does not exist."""
    found: dict[Any, None] = {}
    for text in texts:
        topic, separator, numbers = text.partition(":")
        partitions = session.admin.partitions([topic])
        if not separator:
            found |= dict.fromkeys(partitions)
            continue
        known = {str(each.partition): each for each in partitions}
        for number in numbers.split(","):
            if number not in known:
                raise UserError(f"{text}: {topic} has no partition {number}: it has {len(known)}")
            found[known[number]] = None
    return list(found)
