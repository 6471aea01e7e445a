"""Checks the names of topics.

A name becomes part of a directory name (`<topic>-<partition>`), so every name from outside is checked. It has
1 to 249 ASCII letters, digits, '.', '_' and '-', and is neither '.' nor '..'. Kafka's metrics turn '.' into
'_', so two names that differ only in these collide, and the second one is refused.

Source: Kafka's org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

import re
from typing import Final

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
MAX_LENGTH: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(topic: str) -> bool:
    """Whether the topic holds the broker's own state."""
    return topic in INTERNAL_TOPICS


def is_valid(topic: str) -> bool:
    return why_invalid(topic) is None


def why_invalid(topic: str) -> str | None:
    """Kafka's message about a name that is not allowed; None if it is allowed."""
    if not topic:
        return "Topic name is invalid: the empty string is not allowed"
    if topic in (".", ".."):
        return f"Topic name is invalid: '{topic}' is not allowed"
    if len(topic) > MAX_LENGTH:
        return (
            f"Topic name is invalid: the length of '{topic}' is longer than "
            f"the max allowed length {MAX_LENGTH}"
        )
    if _LEGAL.fullmatch(topic) is None:
        return (
            f"Topic name is invalid: '{topic}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(topic: str) -> str | None:
    """The key that colliding names share; None for a name that cannot collide."""
    return topic.replace(".", "_") if "." in topic or "_" in topic else None
