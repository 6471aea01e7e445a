"""The quotas of a broker follow the metadata.

Their parts are loaded when the first quota is set, and dropped with the last one: a broker without quotas
only tests whether there are some. An operator's callback is there from the start, and stays. Thousands of
quotas that change at once, as at the start, are taken in turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.quotas import CONNECTION_RATE, OF_USERS_AND_CLIENTS, limit_of
from kafkapy.loop.turns import Steps, take_turn
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.metadata.quotas import IP, ClientQuotas, QuotaEntity
from kafkapy.network.server import Server
from kafkapy.operator_class import UnusableClassError, find_class, one_line

if TYPE_CHECKING:
    from kafkapy.quotas import ClientQuotaCallback

CALLBACK: Final = "client.quota.callback.class"

logger = logging.getLogger(__name__)


class BrokerQuotas:
    """Has the quotas of clients while there are some, as the metadata has them."""

    def __init__(
        self, config: BrokerConfig, server: Server, callback: ClientQuotaCallback | None, node_id: int
    ) -> None:
        """`callback` is the operator's, if there is one."""
        self._config = config
        self._node_id = node_id
        self._shared = server.shared
        self._limits = server.limits
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._wanted = self._noted = self._applied = ClientQuotas()
        """The quotas of the metadata, those that the next two are of, and those that the managers have."""
        self._limited: set[QuotaEntity] = set()
        """The users and clients with quotas."""
        self._rates: dict[str | None, float] = {}
        """The connections that may be made in a second, by address; None: by all others."""
        self._taking: Steps[None] | None = None
        """The work that waits for its next turn."""
        self._topics: Mapping[str, Topic] | None = None
        """The topics that the callback knows."""

    def follow(self, _old: MetadataImage, new: MetadataImage) -> None:
        """Take the quotas of a new image."""
        if new.client_quotas is not self._wanted:
            self._wanted = new.client_quotas
            if self._taking is None:
                self._take_some(self._take())
        if self._callback is not None and new.topics is not self._topics:
            self._topics = new.topics
            self._follow_cluster(new)

    def _take_some(self, taking: Steps[None]) -> None:
        self._taking = None
        if take_turn(taking) is None:
            self._taking = taking
            self._loop.call_soon(self._take_some, taking)

    def _take(self) -> Steps[None]:
        """Take the quotas of the metadata, and those that change meanwhile."""
        shared = self._shared
        while self._applied is not self._wanted:
            quotas = self._wanted
            yield from self._note(quotas)
            if self._callback is not None or self._limited:
                if shared.quotas is None:
                    from kafkapy.quotas.managers import QuotaManagers, Windows

                    shared.quotas = QuotaManagers(Windows.of(self._config), self._callback)
                    self._applied = ClientQuotas()
                yield from shared.quotas.follow(self._applied, quotas)
            else:
                shared.quotas = None
            self._applied = quotas

    def _note(self, quotas: ClientQuotas) -> Steps[None]:
        """Note which entities have quotas, an entity in each step, and limit connections."""
        rates = dict(self._rates)
        for entity in quotas.changed_since(self._noted):
            yield
            configs = quotas.configs.get(entity, {})
            kind, name = entity[0]
            if kind == IP:
                rate = limit_of(configs.get(CONNECTION_RATE))
                if rate is None:
                    rates.pop(name, None)
                else:
                    rates[name] = rate
            elif OF_USERS_AND_CLIENTS.keys().isdisjoint(configs):
                self._limited.discard(entity)
            else:
                self._limited.add(entity)
        if rates != self._rates:
            self._rates = rates
            self._limits.set_rates(rates)
        self._noted = quotas

    def close(self) -> None:
        """Close the operator's callback."""
        if self._callback is not None:
            try:
                self._callback.close()
            except Exception:
                logger.exception("The class of %s cannot be closed", CALLBACK)

    def _follow_cluster(self, image: MetadataImage) -> None:
        from kafkapy.quotas import Cluster

        assert self._shared.quotas is not None
        self._shared.quotas.follow_cluster(Cluster(_Leaders(image), self._node_id))


class _Leaders(Mapping[str, Mapping[int, int]]):
    """The leaders of an image, collected by topic when they are asked for."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.topics

    def __getitem__(self, topic: str) -> Mapping[int, int]:
        partitions = self._topics[topic].partitions
        return {index: partition.leader for index, partition in enumerate(partitions)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)


def load_callback(config: BrokerConfig) -> ClientQuotaCallback | None:
    """The operator's callback, configured; None if there is none.

    Raises:
        ConfigError: it cannot be used.
    """
    name = (config[CALLBACK] or "").strip()
    if not name:
        return None
    from kafkapy.quotas import ClientQuotaCallback

    try:
        callback: ClientQuotaCallback = find_class(CALLBACK, name, ClientQuotaCallback)()
        callback.configure(dict(config.originals))
    except UnusableClassError as error:
        raise ConfigError(str(error)) from None
    except BaseException as error:  # SystemExit too: it is the operator's code
        raise ConfigError(
            f"{CALLBACK}={name}: the class cannot be configured: {one_line(error)}; correct its settings, or"
            " remove this one"
        ) from None
    return callback
