"""The node `/feature`: whether features are versioned, and which are in effect (KIP-584).

    {"version":2,"status":1,"features":{"<name>":{"max_version_level":3}}}

A controller makes the node before anything else. Its status says whether features are versioned: from
`inter.broker.protocol.version` 2.7 on (1: enabled, 0: disabled). Before 3.3 a controller writes version 1,
which has a `min_version_level` too. Kafka 3.9 in ZooKeeper mode has no features, so nothing but the status
matters. Features that others have finalized are kept.

Source: KafkaController.maybeSetupFeatureVersioning, FeatureZNode.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any, Final

from kafkapy.metadata import znodes
from kafkapy.metadata.store import Create, Node, Operation, SetData

ENABLED: Final = 1
DISABLED: Final = 0

_FIRST_WITH_FEATURES: Final = (2, 7)
_FIRST_WITHOUT_LOWEST_LEVELS: Final = (3, 3)
_RELEASE: Final = re.compile(r"([0-9]+)\.([0-9]+)")

logger = logging.getLogger(__name__)


def feature_change(node: Node | None, protocol_version: str) -> Operation | None:
    """The change of the node by a new controller, if any.

    Args:
        node: the present one.
        protocol_version: `inter.broker.protocol.version`.
    """
    found = _RELEASE.match(protocol_version)
    release = (int(found[1]), int(found[2])) if found else _FIRST_WITHOUT_LOWEST_LEVELS
    enabled = release >= _FIRST_WITH_FEATURES
    levels: dict[str, int] = {}
    before = None
    if node is not None:
        try:
            before = json.loads(node.data)
            if enabled and before["status"] == ENABLED:
                levels = {name: int(each["max_version_level"]) for name, each in before["features"].items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            logger.error(
                "the metadata node %s cannot be understood and is written anew: %r",
                znodes.FEATURE,
                node.data[:80],
            )
    with_lowest = release < _FIRST_WITHOUT_LOWEST_LEVELS
    content: dict[str, Any] = {
        "version": 1 if with_lowest else 2,
        "status": ENABLED if enabled else DISABLED,
        "features": {
            name: {"max_version_level": level, **({"min_version_level": level} if with_lowest else {})}
            for name, level in levels.items()
        },
    }
    if content == before:
        return None
    data = json.dumps(content, separators=(",", ":")).encode()
    if node is None:
        return Create(znodes.FEATURE, data)
    return SetData(znodes.FEATURE, data, node.stat.version)
