"""Which protocols of groups are enabled: `group.coordinator.rebalance.protocols`.

Share groups do not depend on it: `share.version` is their switch, as in Apache Kafka 4.3.

Source: KafkaApis (isConsumerGroupProtocolEnabled, isStreamsGroupProtocolEnabled).
"""

from __future__ import annotations

from kafkapy.configs.config import REBALANCE_PROTOCOLS
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode, KafkaError


def require(context: RequestContext, protocol: str) -> None:
    """Raise KafkaError UNSUPPORTED_VERSION unless groups of this protocol are enabled."""
    if protocol not in context.broker.config[REBALANCE_PROTOCOLS]:
        # Without a message, as Apache Kafka: clients have one of their own, which names the remedy.
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
