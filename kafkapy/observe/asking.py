"""Requests to the broker that a test observes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkapy.protocol.message import TopMessage

if TYPE_CHECKING:
    from kafkapy.broker.core import BrokerCore

ANSWER_SECONDS: Final = 30.0
"""How long an answer may take."""


async def ask(core: BrokerCore, request: TopMessage) -> Any:
    """Have the broker answer a request; raises PeerError as `LoopbackPeer.ask`."""
    return await core.loopback.ask(request, seconds=ANSWER_SECONDS)
