"""The topics that Kafka Streams makes for an application."""

from __future__ import annotations

import re
from typing import Final

_INTERNAL: Final = re.compile(
    r".+-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


def is_internal(topic: str, application: str) -> bool:
    """Whether an application has a topic for itself, as Kafka's StreamsGroupCommand finds out."""
    return topic.startswith(f"{application}-") and _INTERNAL.fullmatch(topic) is not None
