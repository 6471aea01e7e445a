"""What consumers put into JoinGroup: the broker reads only which topics they subscribe to.

The metadata of protocol type "consumer" is an int16 version and a ConsumerProtocolSubscription; version
0 is a prefix of all later ones, so that it is read as version 0 whatever the client's version.
Everything else in it is between the members. Source: Apache Kafka's
ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkapy.protocol.codec import decode_from
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
MOST_TOPICS: Final = 20_000
"""The most topics that are read for one group: that takes some ten milliseconds."""
_VERSION_SIZE: Final = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Every topic in these; None when one cannot be read, or they are too many.

    Some clients put something else there. More than MOST_TOPICS would hold the event loop.
    """
    topics: set[str] = set()
    left = MOST_TOPICS
    for metadata in subscriptions:
        try:
            subscription, _ = decode_from(
                ConsumerProtocolSubscription, metadata, _VERSION_SIZE, 0, budget=left
            )
        except DecodeError:
            return None
        left -= len(subscription.topics)
        topics.update(subscription.topics)
    return frozenset(topics)
