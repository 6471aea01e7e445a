"""UpdateFeatures: check changes of the levels of features, which are fixed here (KIP-584).

Versions: 0-2.

Behaviour:

- The level that a feature has is accepted. So is a lower one if it is only to be validated, but for
  `metadata.version`.
- A change to a lower level is INVALID_UPDATE_VERSION, where Apache Kafka makes it: what a feature stands for
  cannot be switched off here.
- An unknown feature, or a level that is not supported, is INVALID_UPDATE_VERSION. The first error is the
  answer, and then no feature is changed.
- Any broker but the controller answers as the controller would: nothing is changed.

Version notes:

- v0 has a flag for downgrades, which Apache Kafka's controller ignores: it only upgrades.
- v1 says which kind of change is meant, and may only validate.
- v2 leaves out the results of the features.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from kafkapy.handlers.api_versions import features
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.logs.text import shortened
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

FIRST_VERSION_WITH_UPGRADE_TYPE: Final = 1
LAST_VERSION_WITH_RESULTS: Final = 1


class UpgradeType(IntEnum):
    """What kind of change a client means."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> Steps[UpdateFeaturesResponse]:
    """Check each change."""
    levels = features(clustered=context.broker.clustered)

    def refusal(update: FeatureUpdateKey) -> str | None:
        why = _why_invalid(context, levels, update, validate_only=request.validate_only)
        if why is None:
            return None
        return f"version {update.max_version_level} for feature {shortened(update.feature)}. {why}"

    refusals = yield from answer_each(request.feature_updates, refusal)
    if refusals:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION,
            error_message=(
                "The update failed for all features since the following feature had an error: "
                f"Invalid update {refusals[0]}"
            ),
        )
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version <= LAST_VERSION_WITH_RESULTS:
        response.results = yield from answer_each(
            request.feature_updates,
            lambda update: UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.name),
        )
    return response


def _why_invalid(
    context: RequestContext,
    levels: Mapping[str, tuple[int, int]],
    update: FeatureUpdateKey,
    *,
    validate_only: bool,
) -> str | None:
    """Why a change is refused; None if it is not."""
    kind = update.upgrade_type
    if context.api_version < FIRST_VERSION_WITH_UPGRADE_TYPE:
        kind = UpgradeType.UPGRADE
    wanted = update.max_version_level
    if kind not in list(UpgradeType):
        return "The controller does not support the given upgrade type."
    if wanted < 0:
        return "A feature version cannot be less than 0."
    if update.feature not in levels:
        if wanted == 0:
            return None
        return f"Local controller {context.broker.node_id} does not support this feature."
    low, high = levels[update.feature]
    if not low <= wanted <= high:
        return f"Local controller {context.broker.node_id} only supports versions {low}-{high}"
    if wanted == high:
        return None
    if kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if update.feature == "metadata.version":
        return "Refusing to perform the requested downgrade because it might delete metadata information."
    return None if validate_only else "This broker serves the feature at its highest level only."
