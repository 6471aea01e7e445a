"""The names of topics by id: newer requests have only ids, and Metadata tells both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkapy.protocol.types import ZERO_UUID, ApiKey, Uuid, uuid_to_text
from kafkapy.trace.exchange import Exchange

_TELLING: Final = frozenset({ApiKey.METADATA, ApiKey.CREATE_TOPICS})


class TopicNames:
    """What a trace has told of topics so far, and what is `known` of them from elsewhere."""

    def __init__(self, known: Mapping[Uuid, str] | None = None) -> None:
        self._names: dict[Uuid, str] = dict(known or {})

    def learn(self, exchange: Exchange) -> None:
        """Keep the names in an answer."""
        if exchange.header is None or exchange.header.api_key not in _TELLING:
            return
        told: Any = exchange.response_message
        if told is not None:
            for topic in told.topics:
                if topic.name and topic.topic_id != ZERO_UUID:
                    self._names[topic.topic_id] = topic.name

    def name(self, topic_id: Uuid) -> str:
        """The name of a topic, or its id as text."""
        return self._names.get(topic_id) or uuid_to_text(topic_id)
