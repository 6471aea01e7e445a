"""ApiVersions: what this broker supports, from the table in `kafkapy.handlers`.

Versions: 0-5. The response has header version 0 in every version: a client reads it before it knows
anything.

Behaviour: a version that is too new is answered in version 0 with UNSUPPORTED_VERSION and the whole table
(KIP-511), so that the client can ask again. Features (KIP-584): `metadata.version` is finalized at the
level of the last release with a ZooKeeper mode, whose formats this broker keeps; tools show a broker's
version by it.

Version notes: v3 names the client's software, which must look like a name (INVALID_REQUEST otherwise); v4
may list features with a minimum of 0; v5 (KIP-1242) says which node of which cluster the client means to
talk to, and a client that got elsewhere is told REBOOTSTRAP_REQUIRED.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from kafkapy import handlers
from kafkapy.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST_VERSION_WITH_SOFTWARE: Final = 3
FIRST_VERSION_WITH_NODE: Final = 5

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSION_MIN: Final = 7
"""3.3-IV3, the lowest that Apache Kafka 3.9 supports."""
METADATA_VERSION_3_9: Final = 21
"""3.9-IV0."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer the table."""
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
    return _table()


def unsupported_version() -> ApiVersionsResponse:
    """The answer, in version 0, to a version that is too new."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_table().api_keys)


@cache
def _table() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in handlers.APIS
        ],
        supported_features=[
            SupportedFeatureKey(
                name=METADATA_VERSION, min_version=METADATA_VERSION_MIN, max_version=METADATA_VERSION_3_9
            )
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(
                name=METADATA_VERSION,
                max_version_level=METADATA_VERSION_3_9,
                min_version_level=METADATA_VERSION_3_9,
            )
        ],
    )
