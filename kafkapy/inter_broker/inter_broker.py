"""Requests of this broker to any broker of the cluster, which may be this one.

Each broker has a connection for each API, so that an answer that takes long, such as that to WriteTxnMarkers,
delays no request of another kind. A caller that wants more connections numbers them. A request to this broker
itself goes to its dispatcher, without a connection (inter_broker/loopback.py). A broker that is gone, or that
moved to another address, gets no more requests at the old one: those that wait for its answers fail.
"""

from __future__ import annotations

from typing import Any

from kafkapy.inter_broker.loopback import LoopbackPeer
from kafkapy.inter_broker.peers import Peer, PeerError, Peers, peer_address
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.types import ApiKey


class InterBroker:
    """Asks the brokers of the cluster by their ids."""

    def __init__(
        self,
        cache: MetadataCache,
        loopback: LoopbackPeer,
        *,
        node_id: int,
        listener: str,
        peers: Peers | None,
    ) -> None:
        """`listener` is the listener for other brokers.

        `peers` is None without a cluster.
        """
        self._cache = cache
        self._node_id = node_id
        self._listener = listener
        self._peers = peers
        self._loopback = loopback
        self._connected: dict[tuple[int, int, int], Peer] = {}
        """The peer of each broker, API and number."""
        cache.follow(self._image_changed)

    async def ask(self, broker_id: int, request: TopMessage, connection: int = 0, *, seconds: float) -> Any:
        """Send a request to a broker, and return the answer.

        Requests of an API on the same `connection`, a small number, are sent one after the other.

        Raises:
            PeerError: the broker is not there, or has not answered within `seconds`. The request may have had
                its effect.
        """
        assert request.KEY is not None
        if broker_id == self._node_id:
            return await self._loopback.ask(request, seconds=seconds)
        broker = self._cache.image.brokers.get(broker_id)
        if broker is None or self._peers is None:
            raise PeerError(f"broker {broker_id} is not there")
        address = peer_address(broker, self._listener)
        key = broker_id, request.KEY, connection
        peer = self._connected.get(key)
        if peer is None:
            purpose = ApiKey(request.KEY).name.lower().replace("_", "-")
            peer = self._connected[key] = self._peers.connect(
                address, f"{purpose}-{connection}" if connection else purpose
            )
        return await peer.ask(request, seconds=seconds)

    def close(self) -> None:
        """Close all connections; requests that wait for answers fail."""
        for peer in self._connected.values():
            peer.close()
        self._connected.clear()

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Close the connections to brokers that are gone or have moved."""
        if old.brokers is new.brokers:
            return
        for key, peer in tuple(self._connected.items()):
            broker = new.brokers.get(key[0])
            endpoint = None if broker is None else broker.endpoints.get(self._listener)
            address = peer.address
            if endpoint is None or (endpoint.host, endpoint.port) != (address.host, address.port):
                peer.close()
                del self._connected[key]
