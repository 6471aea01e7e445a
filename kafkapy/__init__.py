"""A Kafka broker in Python that stock clients use unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.broker.core import StartError
    from kafkapy.cluster import Cluster
    from kafkapy.configs.keys import ConfigError
    from kafkapy.inprocess import AsyncBroker, Broker
    from kafkapy.page.server import Page
    from kafkapy.registry.server import SchemaRegistry
    from kafkapy.snapshot import Snapshot, SnapshotError
    from kafkapy.virtual.cluster import VirtualCluster

    __version__: str

__all__ = [
    "AsyncBroker",
    "Broker",
    "Cluster",
    "ConfigError",
    "Page",
    "SchemaRegistry",
    "Snapshot",
    "SnapshotError",
    "StartError",
    "VirtualCluster",
    "__version__",
]

_MODULES = {
    "AsyncBroker": "kafkapy.inprocess",
    "Broker": "kafkapy.inprocess",
    "Cluster": "kafkapy.cluster",
    "ConfigError": "kafkapy.configs.keys",
    "Page": "kafkapy.page.server",
    "SchemaRegistry": "kafkapy.registry.server",
    "Snapshot": "kafkapy.snapshot",
    "SnapshotError": "kafkapy.snapshot",
    "StartError": "kafkapy.broker.core",
    "VirtualCluster": "kafkapy.virtual.cluster",
}


def __getattr__(name: str) -> object:
    # Imported on first use: the command line and the layers below need the package without its broker.
    if name == "__version__":
        from importlib.metadata import version

        return version("kafkapy-broker")
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
