"""The broker's registration: an ephemeral node below `/brokers/ids`.

It lasts as long as the session with the store. Its broker epoch is the number of the transaction that created
it, so every registration has a higher one. A broker that crashed finds its own old node, which stays until
the old session is over. The new registration waits for that. After a session has expired, the broker
registers again by its new one.

Source: Kafka's KafkaZkClient.registerBroker.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Iterable
from typing import Any

from kafkapy.loop.clock import Clock
from kafkapy.metadata import znodes
from kafkapy.metadata.image import Broker, MetadataImage
from kafkapy.metadata.store import (
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeError,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    OutcomeUnknownError,
    WatchEvent,
)
from kafkapy.metadata.znodes import BrokerInfo, DamagedNodeError, Endpoint

logger = logging.getLogger(__name__)


def require_own_place(image: MetadataImage, broker_id: int, endpoints: Iterable[Endpoint]) -> None:
    """See that no other live broker has this broker's id or one of its addresses.

    Two machines may advertise the same address, such as 127.0.0.1: others would take the one for the other.
    Source: KafkaServer.createBrokerInfo.

    Raises:
        MetadataStoreError: another broker has.
    """
    own = {endpoint.listener: endpoint for endpoint in endpoints}
    for broker in image.brokers.values():
        if broker.id == broker_id:
            if broker.endpoints != own:
                raise in_use(broker_id, broker.endpoints.values())
            continue
        taken = {(each.host, each.port) for each in broker.endpoints.values()}
        for endpoint in own.values():
            if (endpoint.host, endpoint.port) in taken:
                raise MetadataStoreError(
                    f"{endpoint} is the address of broker {broker.id} already: set advertised.listeners to an"
                    " address at which others reach this broker. If it is the same broker with another id,"
                    " start it when its old session is over."
                )


async def require_known_name(own: Endpoint | None) -> None:
    """See that the name in this broker's endpoint has an address.

    `own` is the endpoint of the listener for other brokers. Apache Kafka does not check that. A name server
    that does not answer says nothing.

    Raises:
        MetadataStoreError: nobody knows the name.
    """
    if own is None:
        return
    try:
        await asyncio.get_running_loop().getaddrinfo(own.host, 0, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME:
            raise MetadataStoreError(
                f"{own}: the name {own.host} cannot be resolved: set listeners or advertised.listeners to an"
                " address at which others reach this broker."
            ) from None


async def require_reachable(image: MetadataImage, broker_id: int, own: Endpoint | None) -> None:
    """See that brokers on other machines can reach this one.

    `own` is this broker's endpoint of the listener for other brokers. If it is an address of the loopback
    interface, the others have to be on this machine. Apache Kafka does not check that.

    Raises:
        MetadataStoreError: another broker is on another machine.
    """
    if own is None or not _is_loopback(own.host):
        return
    for broker in image.brokers.values():
        other = broker.endpoints.get(own.listener)
        if broker.id != broker_id and other is not None and not await _is_here(other.host):
            raise MetadataStoreError(
                f"{own} is an address of this machine only, and broker {broker.id} is on another, at {other}:"
                " set listeners or advertised.listeners to an address at which others reach this broker."
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


async def _is_here(host: str) -> bool:
    """Whether a host is this machine, as far as that can be found out."""
    if _is_loopback(host):
        return True
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_is_own(family, address) for family, _, _, _, address in found)


def _is_own(family: int, address: tuple[Any, ...]) -> bool:
    """Whether an address is one of this machine's interfaces."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address[0], 0))
    except OSError:
        return False
    return True


def in_use(broker_id: int, endpoints: Iterable[Endpoint]) -> MetadataStoreError:
    """The error if another broker, which is registered at `endpoints`, has an id."""
    return MetadataStoreError(
        f"broker id {broker_id} is in use by another broker of this cluster, registered at"
        f" {', '.join(map(str, endpoints)) or 'no address'}: set another broker.id, or stop that broker"
    )


class Registration:
    """Registers one broker."""

    def __init__(
        self, store: MetadataStore, broker_id: int, info: BrokerInfo, clock: Clock, patience: float
    ) -> None:
        """`patience` is how many seconds an old registration is waited for."""
        self._store = store
        self._broker_id = broker_id
        self._info = info
        self._clock = clock
        self._patience = patience
        self._session = 0
        """The session that has registered."""

    @property
    def is_current(self) -> bool:
        """Whether the store still has the session that has registered."""
        return self._session == self._store.session_id

    async def register(self) -> Broker:
        """Register by the store's present session; return the broker with its epoch.

        An old registration of this broker, at the same addresses, is waited for.

        Raises:
            MetadataStoreError: the store failed, or another broker has the id.
        """
        path = znodes.broker_path(self._broker_id)
        deadline: float | None = None
        while True:
            session = self._store.session_id
            data = znodes.encode_broker(self._info, self._clock.now_ms())
            with contextlib.suppress(NodeExistsError, OutcomeUnknownError):  # the node says whose it is
                await self._store.create(path, data, ephemeral=True)
            try:
                node = await self._store.get(path)
            except NoNodeError:
                continue
            if node.stat.owner == session == self._store.session_id:
                self._session = session
                return self._registered(node.stat.created_zxid)
            if self._session and node.stat.owner == self._session:
                # ZooKeeper may keep nodes of an expired session for long (ZOOKEEPER-2985, KAFKA-7165).
                await self._delete(path, node.stat)
            elif node.stat.owner != session:
                if deadline is None:
                    deadline = self._clock.monotonic() + self._patience
                if await self._wait_for_end(path, node.data, deadline):
                    deadline = None  # if ZooKeeper was away, all sessions have their whole time again

    async def _wait_for_end(self, path: str, data: bytes, deadline: float) -> bool:
        """Wait until the node is deleted or changed, if it is an old registration of this broker.

        Return whether that may have happened, or the connection was lost.

        Raises:
            MetadataStoreError: it is another broker's, or still there at `deadline`.
        """
        try:
            other = znodes.decode_broker(path, data).endpoints
        except DamagedNodeError:
            other = ()
        heard: asyncio.Future[WatchEvent] = asyncio.get_running_loop().create_future()

        def hear(event: WatchEvent) -> None:
            if not heard.done():
                heard.set_result(event)

        remaining = deadline - self._clock.monotonic()
        if other != self._info.endpoints or remaining <= 0:
            raise in_use(self._broker_id, other)
        if await self._store.exists(path, hear) is None:
            return True
        logger.info("The old registration of this broker is still there; waiting for its session to end")
        try:
            await asyncio.wait_for(heard, remaining)
        except TimeoutError:
            return False
        return True

    async def _delete(self, path: str, stat: NodeStat) -> None:
        try:
            await self._store.multi([Delete(path, stat.version)])
        except (NodeError, OutcomeUnknownError):
            return  # the next attempt sees what is there

    def _registered(self, epoch: int) -> Broker:
        logger.info("Broker %d is registered with epoch %d", self._broker_id, epoch)
        endpoints = {endpoint.listener: endpoint for endpoint in self._info.endpoints}
        return Broker(self._broker_id, self._info.rack, endpoints, epoch)
