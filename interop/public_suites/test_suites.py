"""Suites of public projects pass unedited with brokers of kafkapy."""

from __future__ import annotations

import os
from typing import Final

import pytest

from interop.public_suites.spark_checkout import connector_jars
from interop.public_suites.suites import (
    ARROYO,
    FASTSTREAM,
    KASKADE,
    KTABLES,
    PYSPARK,
    PYTEST_KAFKA_BROKER,
    QUIX,
    TASKIQ_AIO_KAFKA,
    Suite,
    run,
)
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.maven import java_missing

_QUICK: Final = "auto_offset_reset or lenient or working_offsets or producer or payload or shutdown"
"""The tests that take at most some seconds each."""

_LONG: Final = pytest.mark.skipif(
    not os.environ.get("KAFKAPY_PUBLIC_SUITES"),
    reason="takes minutes, and has limits of time of its own: set KAFKAPY_PUBLIC_SUITES to run it",
)


@pytest.fixture(autouse=True)
def _against_kafkapy(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--against") != "kafkapy":
        pytest.skip("these suites start a broker of kafkapy")


def test_the_quick_tests_of_arroyo_pass() -> None:
    outcome = run(ARROYO, "-k", _QUICK)
    assert (outcome.others, outcome.passed >= 20) == ([], True), outcome.output


@pytest.mark.parametrize(
    "suite", [PYTEST_KAFKA_BROKER, KTABLES, TASKIQ_AIO_KAFKA], ids=lambda suite: suite.name
)
def test_all_of_short_suites_pass(suite: Suite) -> None:
    outcome = run(suite)
    assert (outcome.others, outcome.passed) == ([], suite.passed), outcome.output


@_LONG
@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("suite", [ARROYO, FASTSTREAM, KASKADE, QUIX], ids=lambda suite: suite.name)
def test_all_of_long_suites_pass(suite: Suite) -> None:
    outcome = run(suite)
    assert (outcome.others, outcome.passed) == ([], suite.passed), outcome.output


@_LONG
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_all_of_pyspark_s_tests_of_kafka_pass() -> None:
    if missing := java_missing():
        pytest.skip(missing)
    with skipped_without_jars():
        connector_jars()
    outcome = run(PYSPARK)
    assert (outcome.others, outcome.passed) == ([], PYSPARK.passed), outcome.output
