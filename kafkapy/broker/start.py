"""The start of a broker, as its steps see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

from kafkapy.broker.machine import Machine
from kafkapy.configs.config import BrokerConfig
from kafkapy.metadata.cache import MetadataCache
from kafkapy.metadata.store import MetadataStore

if TYPE_CHECKING:
    from kafkapy.security.tls.certificate_names import CertificateNames


class Start(NamedTuple):
    """The settings and the machine of one start, and what it has started until now."""

    config: BrokerConfig
    machine: Machine
    metadata: MetadataCache
    """Is empty until the broker knows its cluster."""
    cluster_store: Callable[[], Awaitable[MetadataStore]] | None
    """Opens the metadata that the broker shares with others; None if it is alone."""
    started: AsyncExitStack
    """The reversals of the steps that were taken. They run in reverse order: each step adds its own."""
    certificate_names: dict[str, CertificateNames]
    """The names in the certificates that are in use now, by listener."""
