"""Faults on the page: what brokers do wrong, how often, and what is broken by the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer

from kafkapy import Broker, Cluster, Page
from kafkapy.remote.brokers import Brokers
from kafkapy.remote.server import RemoteServer
from tests.page.browsing import Browser

HOSTILE = '"><script>alert(1)</script>'


@dataclass
class Breaking:
    """A broker, and the page that breaks it."""

    broker: Broker
    browser: Browser

    def send(self, path: str, **fields: str) -> None:
        """Send a form of the view; it is to lead back there."""
        self.browser.get("/faults")
        number = str(self.broker.core.node_id if self.broker.is_running else 1)
        sent = {"broker": number, **fields, "secret": self.browser.secret()}
        view = self.browser.send(path, sent)
        assert view.url.endswith("/faults"), view.problem


@pytest.fixture
def breaking(kafka_broker: Broker) -> Iterator[Breaking]:
    with (
        RemoteServer(Brokers(kafka_broker), 0) as server,
        Page(kafka_broker.bootstrap_servers, faults=server.url) as page,
    ):
        yield Breaking(kafka_broker, Browser(page.url))


def test_a_fault_is_switched_on_counted_and_switched_off(breaking: Breaking) -> None:
    broker, browser = breaking.broker, breaking.browser
    broker.create_topics({"orders": 1})
    assert "It does nothing wrong." in browser.get("/faults").text
    arguments = "code=NOT_LEADER_OR_FOLLOWER\r\n\r\n topic=orders\r\ntimes=2"
    breaking.send("/faults/add", of="produce", do="error", arguments=arguments)
    fault = "produce(topic='orders').error('NOT_LEADER_OR_FOLLOWER', times=2)"
    assert browser.get("/faults").rows == [["1", fault, "0", "0", "Switch off fault 1 of broker 1"]]
    writer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    writer.produce("orders", "two apples")
    assert writer.flush(20) == 0
    assert browser.get("/faults?part=1").rows[0][2:4] == ["2", "2"]
    breaking.send("/faults/remove", number="1")
    assert len(broker.faults) == 0


def test_a_broker_is_killed_and_started(breaking: Breaking) -> None:
    breaking.send("/faults/broker", do="kill")
    assert not breaking.broker.is_running
    assert "stopped" in breaking.browser.get("/faults").text
    breaking.send("/faults/broker", do="start")
    assert breaking.broker.is_running
    breaking.send("/faults/broker", do="pause")
    assert breaking.broker.is_paused
    breaking.send("/faults/broker", do="resume")
    assert not breaking.broker.is_paused


def test_what_is_wrong_comes_back_in_the_form(breaking: Breaking) -> None:
    browser = breaking.browser
    for fields, problem in (
        ({"of": "produc", "do": "error"}, "did you mean produce"),
        ({"of": "produce", "do": "erro"}, "expected error, delay, twice, disconnect"),
        ({"of": "produce", "do": "error", "arguments": "times"}, "times: expected NAME=VALUE"),
        ({"of": "produce", "do": "error", "arguments": "do=delay"}, "do=delay: expected NAME=VALUE"),
        ({"of": HOSTILE, "do": "error"}, HOSTILE),
    ):
        browser.get("/faults")
        sent = {"broker": "1", "arguments": "", **fields, "secret": browser.secret()}
        view = browser.send("/faults/add", sent)
        assert view.status == 400
        assert problem in view.problem
        assert view.field("of") == fields["of"]
        assert "<script>alert" not in view.text
    assert len(breaking.broker.faults) == 0


def test_a_fault_of_a_test_is_text(breaking: Breaking) -> None:
    breaking.broker.faults.produce(client_id=HOSTILE).delay(1)
    view = breaking.browser.get("/faults")
    assert HOSTILE in view.rows[0][1]
    assert "<script>alert" not in view.text


def test_forms_need_the_secret(breaking: Breaking) -> None:
    browser = breaking.browser
    number = str(breaking.broker.core.node_id)
    assert browser.send("/faults/broker", {"broker": number, "do": "kill"}).status == 403
    told = {"broker": number, "of": "produce", "do": "disconnect", "arguments": ""}
    assert browser.send("/faults/add", told).status == 403
    assert breaking.broker.is_running
    assert len(breaking.broker.faults) == 0


def test_a_page_that_is_read_only_shows_faults_and_breaks_nothing(kafka_broker: Broker) -> None:
    kafka_broker.faults.produce().delay(1)
    with (
        RemoteServer(Brokers(kafka_broker), 0) as server,
        Page(kafka_broker.bootstrap_servers, faults=server.url, read_only=True) as page,
    ):
        browser = Browser(page.url)
        view = browser.get("/faults")
        assert view.rows == [["1", "produce().delay(1)", "0", "0"]]
        assert "<form" not in view.text
        for path in ("/faults/add", "/faults/remove", "/faults/broker"):
            assert browser.send(path, {}).status == 404


def test_a_page_of_another_cluster_has_no_faults(browser: Browser) -> None:
    assert "Faults" not in browser.get("/topics").text
    assert browser.get("/faults").status == 404


def test_brokers_that_are_served_no_more_are_named(kafka_broker: Broker) -> None:
    with RemoteServer(Brokers(kafka_broker), 0) as server:
        url = server.url
    with Page(kafka_broker.bootstrap_servers, faults=url) as page:
        view = Browser(page.url).get("/faults")
        assert view.status == 400
        assert f"{url} does not answer" in view.problem
        assert Browser(page.url).get("/topics").status == 200


def test_brokers_of_a_cluster_are_cut_off_and_their_faults_are_apart() -> None:
    with (
        Cluster(brokers=2) as cluster,
        RemoteServer(Brokers(cluster), 0) as server,
        Page(cluster.bootstrap_servers, faults=server.url) as page,
    ):
        browser = Browser(page.url)
        browser.get("/faults")
        fields = {"broker": "2", "of": "fetch", "do": "delay", "arguments": "seconds=0.1"}
        browser.send("/faults/add", {**fields, "secret": browser.secret()})
        assert (len(cluster[1].faults), len(cluster[2].faults)) == (0, 1)
        browser.send("/faults/add", {**fields, "broker": "all", "secret": browser.secret()})
        assert (len(cluster.faults), len(cluster[1].faults)) == (1, 0)
        assert "Faults of all brokers" in browser.get("/faults").text
        fields = {"broker": "all", "number": "1", "secret": browser.secret()}
        browser.send("/faults/remove", fields)
        assert (len(cluster.faults), len(cluster[2].faults)) == (0, 1)
        assert "Faults of all brokers" not in browser.get("/faults").text
        browser.send("/faults/broker", {"broker": "2", "do": "cut_off", "secret": browser.secret()})
        assert "cut off from 2" in browser.get("/faults").text
        browser.send("/faults/broker", {"broker": "2", "do": "kill", "secret": browser.secret()})
        assert "broker 2 does not run: start it first" in browser.get("/faults").text
