"""The addresses of brokers in answers: clients that follow them would leave the proxy.

They are in Metadata, DescribeCluster and FindCoordinator, and in what tells clients the new leader: Produce,
Fetch, ShareFetch and ShareAcknowledge (KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.types import ApiKey

_FIELDS: Final = {
    ApiKey.METADATA: "brokers",
    ApiKey.DESCRIBE_CLUSTER: "brokers",
    ApiKey.FIND_COORDINATOR: "coordinators",
    ApiKey.PRODUCE: "node_endpoints",
    ApiKey.FETCH: "node_endpoints",
    ApiKey.SHARE_FETCH: "node_endpoints",
    ApiKey.SHARE_ACKNOWLEDGE: "node_endpoints",
}


def may_have_addresses(api_key: int) -> bool:
    """Whether answers of this API may tell addresses."""
    return api_key in _FIELDS


def with_addresses(api_key: int, response: TopMessage) -> Iterator[Any]:
    """Each part of the answer that has a broker's `host` and `port`, in all versions."""
    if api_key == ApiKey.FIND_COORDINATOR:
        yield from _told([response])
    yield from _told(getattr(response, _FIELDS[ApiKey(api_key)]))


def _told(places: list[Any]) -> Iterator[Any]:
    """Those with an address: a failed FindCoordinator has port -1."""
    return (place for place in places or () if place.host and place.port > 0)
