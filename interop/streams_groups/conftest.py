"""The stage: one broker, or a cluster, behind proxies that delay and double frames."""

from interop.exactly_once.conftest import stage

__all__ = ["stage"]
