"""Requests of this broker to the controller, which may be this broker.

The controller is the one that the metadata image shows. It changes at any time: the asker tries again later,
and asks the controller of that time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafkapy.inter_broker.peers import Peer, PeerAddress, PeerError, Peers, peer_address
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import NO_CONTROLLER, MetadataImage


class ControllerLink:
    """Asks the present controller."""

    def __init__(
        self,
        cache: MetadataCache,
        peers: Peers,
        *,
        node_id: int,
        listener: str,
        own: Callable[[Any], Awaitable[Any]],
    ) -> None:
        """Use the given parts of the broker.

        `listener` is the name of the listener for other brokers. `own` answers a request while this broker is
        the controller.
        """
        self._cache = cache
        self._peers = peers
        self._node_id = node_id
        self._listener = listener
        self._own = own
        self._peer: Peer | None = None
        cache.follow(self._image_changed)

    async def ask(self, request: Any, *, seconds: float) -> Any:
        """Send a request to the controller, and return the answer.

        Raises:
            PeerError: there is no controller, no answer within `seconds`, or another broker is the controller
                meanwhile. The request may have had its effect.
            KafkaError: this broker is the controller, and refuses the request.
        """
        image = self._cache.image
        if image.controller_id == self._node_id:
            return await self._own(request)
        controller = image.brokers.get(image.controller_id)
        if controller is None:
            who = "" if image.controller_id == NO_CONTROLLER else f" {image.controller_id}"
            raise PeerError(f"the controller{who} is not there")
        return await self._peer_at(peer_address(controller, self._listener)).ask(request, seconds=seconds)

    def close(self) -> None:
        """Close the connection; requests that wait for answers fail."""
        if self._peer is not None:
            self._peer.close()

    def _image_changed(self, _old: MetadataImage, new: MetadataImage) -> None:
        """Give up a controller that is no longer the controller.

        If it is frozen, it answers nothing.
        """
        if self._peer is not None and new.controller_id != self._peer.address.id:
            self._peer.close()
            self._peer = None

    def _peer_at(self, address: PeerAddress) -> Peer:
        if self._peer is None or self._peer.address != address:
            self.close()
            self._peer = self._peers.connect(address, "to-controller")
        return self._peer
