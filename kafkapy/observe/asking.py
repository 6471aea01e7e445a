"""Requests to the broker that a test observes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkapy.protocol.message import TopMessage

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore
    from kafkapy.observe.brokers import Brokers

    Observed: TypeAlias = BrokerCore | Brokers
    """What is looked at: a broker, or all of a cluster."""

ANSWER_SECONDS: Final = 30.0
"""How long an answer may take."""


async def ask(core: Observed, request: TopMessage) -> Any:
    """Have the broker answer a request; raises PeerError as `LoopbackPeer.ask`."""
    return await core.loopback.ask(request, seconds=ANSWER_SECONDS)
