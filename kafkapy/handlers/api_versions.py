"""ApiVersions: say what this broker supports, from the table in `kafkapy.handlers`.

Versions: 0-5. The response has header version 0 in every version: a client reads it before it knows
anything.

Behaviour:

- A version that is too new is answered in version 0 with UNSUPPORTED_VERSION and the complete table
  (KIP-511), so that the client can ask again.
- The features (KIP-584) are those of Apache Kafka 4.3 that are served: `metadata.version`, by which tools
  show a broker's version, `eligible.leader.replicas.version`, `group.version`, which stands for consumer
  groups, `share.version`, `streams.version`, and `transaction.version`. A cluster on ZooKeeper has only the
  first, as with Apache Kafka 3.9; it serves consumer, share and streams groups all the same. The features of
  the other group protocols are announced only together with what they stand for.
- GetTelemetrySubscriptions and PushTelemetry are announced while metrics are on.
- What brokers ask each other is announced in a cluster only. Apache Kafka announces it on every broker.

Version notes:

- v3 names the client's software. The name must look like one: INVALID_REQUEST otherwise.
- v4 also lists features with a minimum of 0.
- v5 says which node of which cluster the client means to talk to (KIP-1242). A client that reached another
  one gets REBOOTSTRAP_REQUIRED.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from kafkapy import handlers
from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import response_frame
from kafkapy.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafkapy.protocol.types import Part

FIRST_VERSION_WITH_SOFTWARE: Final = 3
FIRST_VERSION_WITH_NODE: Final = 5

FIRST_VERSION_WITH_FEATURES_FROM_0: Final = 4

ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"
FEATURES: Final = {
    # 3.3-IV3 to 4.3-IV0.
    "metadata.version": (7, 30),
    ELIGIBLE_LEADER_REPLICAS: (0, 1),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""The lowest and the highest level of each feature; the highest is finalized."""
ONLY_ALONE: Final = (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
"""The features that a cluster on ZooKeeper does not have."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse | list[Part]:
    """Answer the table, which is encoded once: all clients ask for it after a restart."""
    if context.api_version >= FIRST_VERSION_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    if context.api_version >= FIRST_VERSION_WITH_NODE:
        if (request.cluster_id is None) != (request.node_id == -1):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
        broker = context.broker
        if request.cluster_id is not None and (request.cluster_id, request.node_id) != (
            broker.cluster_id,
            broker.node_id,
        ):
            return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[])
    telemetry = context.broker.telemetry is not None
    if telemetry and context.api_version >= FIRST_VERSION_WITH_SOFTWARE:
        context.connection.software = request.client_software_name, request.client_software_version
    body = _encoded(context.api_version, clustered=context.broker.clustered, telemetry=telemetry)
    return [response_frame(context.api_key, context.api_version, context.correlation_id, body)]


def unsupported_version(*, clustered: bool, telemetry: bool) -> ApiVersionsResponse:
    """The answer, in version 0, to a version that is too new."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=_table(clustered=clustered, telemetry=telemetry, features_from_0=False).api_keys,
    )


def features(*, clustered: bool) -> dict[str, tuple[int, int]]:
    """The lowest and the highest level of each feature that is served."""
    return {name: levels for name, levels in FEATURES.items() if not (clustered and name in ONLY_ALONE)}


@cache
def _encoded(version: int, *, clustered: bool, telemetry: bool) -> bytes:
    features_from_0 = version >= FIRST_VERSION_WITH_FEATURES_FROM_0
    table = _table(clustered=clustered, telemetry=telemetry, features_from_0=features_from_0)
    return encode(table, version)


@cache
def _table(*, clustered: bool, telemetry: bool, features_from_0: bool) -> ApiVersionsResponse:
    served = features(clustered=clustered)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in handlers.served(clustered=clustered, telemetry=telemetry).values()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in served.items()
            if low or features_from_0
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=high, min_version_level=high)
            for name, (_, high) in served.items()
        ],
    )
