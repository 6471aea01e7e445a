"""What the subscriptions to metrics of clients ask of one client."""

from __future__ import annotations

import logging

import pytest

from kafkapy.configs.client_match import LONGEST, LONGEST_VALUE, ClientMatch
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import uuid_from_text
from kafkapy.telemetry.java_sets import in_set_order
from kafkapy.telemetry.subscriptions import NOTHING, Asked, Subscriptions

ONE = bytes.fromhex("0123456789abcdeffedcba9876543210")
OTHER = uuid_from_text("AAEC_wQFhgeICQoLDA0ODw")
MANY = [f"org.apache.kafka.m{number * number}" for number in range(40)]
JAVA = {"client_software_name": "apache-kafka-java", "client_software_version": "4.3.1", "client_id": "app-1"}


@pytest.mark.parametrize(
    ("metrics", "of_one", "of_other"),
    [
        ([], -725132322, 1422383906),
        (["*"], 1012207395, -1135243297),
        (["org.apache.kafka.producer.", "org.apache.kafka.consumer.", "b", "a"], 1412123981, -735326799),
        (MANY, 826733976, -1320782492),
    ],
)
def test_the_id_of_a_subscription_is_apache_kafkas(metrics: list[str], of_one: int, of_other: int) -> None:
    """The numbers are what computeSubscriptionId of Apache Kafka 4.3.1 returned."""
    asked = Asked(tuple(in_set_order(metrics)), 300_000)
    assert [asked.subscription_id(each) for each in (ONE, OTHER)] == [of_one, of_other]


def test_all_subscriptions_that_match_are_asked_with_the_shortest_interval() -> None:
    subscriptions = Subscriptions(
        {
            "of all": {"metrics": "a."},
            "of java": {"metrics": "b.,c.", "interval.ms": "1000", "match": "client_software_name=apache.*"},
            "of others": {"metrics": "d.", "interval.ms": "100", "match": "client_software_name=librdkafka"},
        }
    )
    asked = subscriptions.asked_of(JAVA)
    assert (set(asked.metrics), asked.interval_ms) == ({"a.", "b.", "c."}, 1000)
    assert [asked.includes(name) for name in ("a.x", "c.", "d.x", "")] == [True, True, False, False]


def test_a_star_asks_for_all_metrics() -> None:
    asked = Subscriptions({"one": {"metrics": "a."}, "all": {"metrics": "*"}}).asked_of(JAVA)
    assert asked.metrics == ("*",)
    assert asked.includes("anything")


def test_without_subscriptions_nothing_is_asked() -> None:
    assert Subscriptions({}).asked_of(JAVA) == NOTHING == Asked((), 300_000)
    assert not NOTHING.includes("a")


@pytest.mark.parametrize(
    ("entries", "matches"),
    [
        ([], True),
        (["client_id=app-.*"], True),
        (["client_id=app"], False),
        (["client_id = app-1", "client_software_version=4\\..*"], True),
        (["client_id=app-1", "client_software_version=3\\..*"], False),
        (["client_source_port=.*"], False),
        (["client_id=no", "client_id=app-1"], True),
    ],
)
def test_a_client_matches_if_it_matches_every_entry_as_a_whole(entries: list[str], matches: bool) -> None:
    assert ClientMatch(entries).matches(JAVA) is matches


@pytest.mark.parametrize("entry", ["client_id", "client_id=", "name=x", "client_id=(", "client_id=a=b"])
def test_an_entry_that_is_wrong_is_refused(entry: str) -> None:
    with pytest.raises(KafkaError, match="Illegal client matching pattern") as refused:
        ClientMatch([entry])
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_entries_and_properties_of_clients_have_bounds() -> None:
    with pytest.raises(KafkaError, match=f"more than {LONGEST} characters"):
        ClientMatch([f"client_id={'x' * LONGEST}"])
    anyone = ClientMatch(["client_id=.*"])
    assert anyone.matches({"client_id": "x" * LONGEST_VALUE})
    assert not anyone.matches({"client_id": "x" * (LONGEST_VALUE + 1)})


def test_a_subscription_from_elsewhere_that_is_wrong_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    configs = {"wrong": {"metrics": "*", "match": "client_id=(?=x)"}, "right": {"metrics": "a."}}
    with caplog.at_level(logging.WARNING):
        assert Subscriptions(configs).asked_of(JAVA).metrics == ("a.",)
    assert "Client metrics wrong: ignored, INVALID_CONFIG: Illegal client matching pattern" in caplog.text
