"""A share of Apache Kafka's own integration tests passes on kafkapy.

scripts/kafka_own runs all. A test that fails needs a reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from interop.kafka_own.outcomes import Verdict
from interop.kafka_own.own_tests import own_test_jars, run
from interop.kafka_own.reasons import unexplained
from interop.support.jars_or_skip import skipped_without_jars

CLASSES: Final = (
    "kafka.server.ConsumerGroupHeartbeatRequestTest",
    "kafka.server.LeaveGroupRequestTest",
    "kafka.server.OffsetCommitRequestTest",
    "kafka.server.OffsetDeleteRequestTest",
    "kafka.server.OffsetFetchRequestTest",
    "kafka.server.ShareGroupHeartbeatRequestTest",
    "kafka.server.TxnOffsetCommitRequestTest",
    "kafka.server.WriteTxnMarkersRequestTest",
    "org.apache.kafka.clients.admin.DescribeAuthorizedOperationsTest",
    "org.apache.kafka.clients.producer.ProducerIntegrationTest",
    "org.apache.kafka.streams.integration.GlobalKTableIntegrationTest",
    "org.apache.kafka.streams.integration.RegexSourceIntegrationTest",
)
"""Classes whose tests are quick, and send requests of many kinds."""

_LEAST: Final = 68
"""The tests that have to pass."""


@pytest.mark.slow
def test_apache_kafkas_own_tests_pass_or_have_a_reason(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if request.config.getoption("--against") != "kafkapy":
        pytest.skip("this is about brokers that the tests start")
    with skipped_without_jars():
        own_test_jars()
    outcomes = run(CLASSES, tmp_path)
    assert not unexplained(outcomes)
    assert sum(each.verdict is Verdict.PASSED for each in outcomes) >= _LEAST
