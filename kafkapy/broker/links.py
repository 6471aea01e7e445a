"""How a broker of a cluster reaches others and ZooKeeper: encrypted and logged in, or open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.metadata.shared_tree import open_zookeeper
from kafkapy.metadata.store import MetadataStore

if TYPE_CHECKING:
    from kafkapy.security.links import LinkSecurity


def link_security(config: BrokerConfig) -> LinkSecurity | None:
    """What connections to other brokers begin with; None if they are open, or there are none.

    Raises:
        ConfigError: the broker's key or its login cannot be used.
    """
    if not config.clustered or config.inter_broker_protocol is SecurityProtocol.PLAINTEXT:
        return None
    from kafkapy.security.links import LinkSecurity  # few brokers need its code

    security = LinkSecurity(config)
    config.on_change(security.follow)
    return security


async def zookeeper_of(config: BrokerConfig) -> MetadataStore:
    """A session with ZooKeeper.

    Raises:
        ConfigError: the broker's key or its login cannot be used.
        MetadataStoreError: no usable ZooKeeper answers.
    """
    from kafkapy.security.zookeeper import zookeeper_access

    return await open_zookeeper(config, zookeeper_access(config))
