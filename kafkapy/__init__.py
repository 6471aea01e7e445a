"""A Kafka broker in Python that stock clients use unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.cluster import Cluster
    from kafkapy.inprocess import AsyncBroker, Broker

    __version__: str

__all__ = ["AsyncBroker", "Broker", "Cluster", "__version__"]


def __getattr__(name: str) -> object:
    # Imported on first use: the command line and the layers below need the package without its broker.
    if name == "__version__":
        from importlib.metadata import version

        return version("kafkapy-broker")
    if name in ("AsyncBroker", "Broker"):
        from kafkapy import inprocess

        return getattr(inprocess, name)
    if name == "Cluster":
        from kafkapy.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
