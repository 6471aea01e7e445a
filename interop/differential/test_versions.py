"""ApiVersions: the versions of what both brokers have, and the features."""

from __future__ import annotations

import pytest

from interop.differential.brokers import Broker, Pair
from kafkapy.handlers.api_versions import FEATURES
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest

pytestmark = pytest.mark.jvm


def test_kafkapy_has_every_version_that_kafka_has(pair: Pair) -> None:
    missing = {
        key: (theirs, ours)
        for key, (theirs, ours) in pair.ranges.items()
        if not (ours.start <= theirs.start and theirs.stop <= ours.stop)
    }
    assert missing == {}, "(Apache Kafka, kafkapy)"


def test_api_versions(pair: Pair) -> None:
    def ask(broker: Broker) -> None:
        for version in broker.versions(ApiVersionsRequest):
            for name, number in (("client", "1.0"), ("", ""), ("no good!", "1")):
                request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
                answer = broker.main.quietly(request, version)
                broker.note(
                    f"v{version} {name!r}", {"error_code": answer.error_code, "any": bool(answer.api_keys)}
                )

    pair.compare(ask)


def test_features_of_what_is_served_have_the_levels_of_kafka(pair: Pair) -> None:
    def features(broker: Broker) -> None:
        for version in broker.versions(ApiVersionsRequest):
            request = ApiVersionsRequest()
            if version >= 3:
                request.client_software_name, request.client_software_version = "client", "1.0"
            answer = broker.main.quietly(request, version)
            supported = {
                each.name: (each.min_version, each.max_version) for each in answer.supported_features
            }
            finalized = {
                each.name: (each.min_version_level, each.max_version_level)
                for each in answer.finalized_features
            }
            for name in FEATURES:
                found: dict[str, object] = {
                    "supported": supported.get(name),
                    "finalized": finalized.get(name),
                }
                broker.note(f"v{version} {name}", found)

    pair.compare(features)
