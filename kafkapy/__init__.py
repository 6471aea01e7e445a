"""A Kafka broker in Python that stock clients use unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.inprocess import AsyncBroker, Broker

    __version__: str

__all__ = ["AsyncBroker", "Broker", "__version__"]


def __getattr__(name: str) -> object:
    # On first use: the command line and the layers below import the package without its broker.
    if name == "__version__":
        from importlib.metadata import version

        return version("kafkapy-broker")
    if name in ("AsyncBroker", "Broker"):
        from kafkapy import inprocess

        return getattr(inprocess, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
