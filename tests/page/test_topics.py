"""Topics and groups, side by side."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkapy import Broker
from tests.page.browsing import Browser, eventually


def commit(broker: Broker, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """Commit an offset for a group without members."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


def test_a_topic_is_shown_with_its_size_and_the_lag_of_its_groups(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 3})
    for number in range(5):
        broker.produce(name, value=str(number), partition=1)
    commit(broker, f"{name}-readers", name, 2, partition=1)

    def row() -> list[str]:
        return next(row for row in browser.get(f"/topics?name={name}").rows if row[0] == name)

    eventually(lambda: row()[5] == f"{name}-readers 3")
    assert row()[1:4] == [f"3 partitions of {name}", "1", "5"]
    assert row()[4].endswith(" B")


def test_partitions_are_shown_with_their_offsets_and_replicas(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 2})
    broker.produce(name, value="one", partition=1)
    rows = browser.get(f"/topics/{name}").rows
    assert [row[:4] + row[5:] for row in rows] == [
        ["0", "0", "0", "0", "1", "1", "1"],
        ["1", "0", "1", "1", "1", "1", "1"],
    ]


def test_long_lists_of_topics_come_in_pages(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({f"{name}-{number:03}": 1 for number in range(120)})
    eventually(lambda: len(browser.get(f"/topics?name={name}").rows) == 50)
    first = browser.get(f"/topics?name={name}")
    second = browser.get("/topics" + first.link("Next"))
    assert second.rows[0][0] == f"{name}-050"
    assert browser.get(f"/topics?name={name}&page=99").rows[-1][0] == f"{name}-119"


def test_a_topic_that_does_not_exist_is_said_to_be_missing(browser: Browser) -> None:
    view = browser.get("/topics/nothing")
    assert (view.status, view.problem) == (400, "there is no topic nothing, or this user may not see it")


def test_a_group_is_shown_with_members_and_lag_by_partition(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 2})
    for number in range(4):
        broker.produce(name, value=str(number), partition=0)
    for number in range(2):
        broker.produce(name, value=str(number), partition=1)
    for protocol in ("classic", "consumer"):
        group = f"{name}-{protocol}"
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "client.id": "reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.protocol": protocol,
            }
        )
        consumer.subscribe([name])
        while consumer.poll(0.1) is None:
            pass
        consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
        view = browser.get(f"/group?name={group}")
        assert view.rows[0][:4] == [f"{name}-0", "1", "4", "3"]
        assert view.rows[0][4].startswith("reader")
        assert view.rows[1][:4] == [f"{name}-1", "-", "2", "-"]
        assert view.rows[1][4].startswith("reader")
        assert f"<dt>Type</dt><dd>{protocol}</dd>" in view.text
        assert "<dt>State</dt><dd>Stable</dd>" in view.text
        assert f"2: {name}-0, {name}-1" in view.rows[-1][3]
        assert [row[:3] for row in browser.get(f"/groups?name={group}").rows] == [[group, protocol, "Stable"]]
        consumer.close()


def test_the_lag_of_a_group_is_drawn_over_time(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    broker.produce(name, value="one")
    commit(broker, name, name, 0)
    assert "measured every 5 s" in browser.get(f"/group?name={name}").text
    eventually(lambda: '<polyline class="line"' in browser.get(f"/group?name={name}&part=1").text, 30)


def test_names_are_text_and_never_a_part_of_the_page(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    group = f'{name}/"><script>alert(1)</script>\u202e'
    commit(broker, group, name, 0)
    for path in ("/groups", f"/group?name={quote(group, safe='')}", f"/topics/{name}"):
        view = browser.get(path)
        assert view.status == 200
        assert "<script>alert" not in view.text
        assert "\u202e" not in view.text.replace(quote("\u202e"), "")
    assert "<RIGHT-TO-LEFT OVERRIDE>" in browser.get("/groups").rows[-1][0] or any(
        "<RIGHT-TO-LEFT OVERRIDE>" in row[0] for row in browser.get("/groups").rows
    )


def test_settings_of_topics_and_brokers_are_shown_with_the_changed_ones_first(
    broker: Broker, browser: Browser, name: str
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "4711"})])[name].result()
    rows = browser.get(f"/topics/{name}/configs").rows
    changed = [row[0] for row in rows if row[2] != "default"]
    assert ["retention.ms", "4711", "topic"] in [row[:3] for row in rows]
    assert [row[0] for row in rows[: len(changed)]] == changed
    assert any(row[0] == "log.dirs" for row in browser.get("/brokers/1/configs").rows)


def test_the_cluster_shows_its_brokers_and_log_directories(broker: Broker, browser: Browser) -> None:
    row = browser.get("/cluster").rows[0]
    assert row[1] == broker.bootstrap_servers
    assert "free" in row[5]


def test_a_path_with_a_number_that_nobody_has_is_no_page(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    digits = 5000 * "9"
    for path in (f"/topics/orders/{digits}/0", f"/topics/orders/0/{digits}", f"/brokers/{digits}/configs"):
        assert browser.get(path).status == 404
    assert caplog.records == []
