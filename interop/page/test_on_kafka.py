"""The page on Apache Kafka, which answers in other versions than kafkapy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.known_topics import create_topics
from kafkapy import Page
from tests.page.browsing import Browser, View, eventually

VIEWS = (
    "/topics?internal=1",
    "/topics/orders",
    "/topics/orders/configs",
    "/brokers/1/configs",
    "/groups",
    "/transactions",
    "/cluster",
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """Apache Kafka, with a topic and a group that has read half of it."""
    with skipped_without_jars():
        kafka_jars()
    with KafkaProcess(tmp_path_factory.mktemp("kafka")) as process:
        create_topics(process.bootstrap_servers, ("orders",), 2)
        address = {"bootstrap.servers": process.bootstrap_servers}
        producer = Producer({**address, "transactional.id": "transfer"})
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(10):
            producer.produce("orders", f'{{"n": {number}}}', key=str(number), partition=0)
        producer.commit_transaction()
        consumer = Consumer({**address, "group.id": "half"})
        eventually(lambda: commits(consumer, TopicPartition("orders", 0, 5)))
        consumer.close()
        yield process


def commits(consumer: Consumer, position: TopicPartition) -> bool:
    """Whether the coordinator is ready for a commit, and has it."""
    try:
        consumer.commit(offsets=[position], asynchronous=False)
    except KafkaException:
        return False
    return True


@pytest.fixture(scope="module")
def browser(kafka: KafkaProcess) -> Iterator[Browser]:
    with Page(kafka.bootstrap_servers, timeout=30) as page:
        yield Browser(page.url)


def test_all_views_are_those_of_kafka(browser: Browser) -> None:
    for path in VIEWS:
        view = browser.get(path)
        assert (view.status, view.problem) == (200, ""), path
    assert [row[:4] for row in browser.get("/topics/orders").rows][-2:] == [
        ["0", "0", "11", "11"],
        ["1", "0", "0", "0"],
    ]
    eventually(lambda: browser.get("/topics").rows[0][5] == "half 6")
    assert browser.get("/group?name=half").rows[0][:4] == ["orders-0", "5", "11", "6"]
    assert browser.get("/transactions").rows[0][:2] == ["transfer", "CompleteCommit"]


def test_messages_are_read_both_ways(browser: Browser) -> None:
    newest = browser.get("/topics/orders/messages?limit=3").rows
    assert [row[3] for row in newest] == ["transaction committed", '{"n": 9}', '{"n": 8}']
    found = browser.get("/topics/orders/messages?from=oldest&where=n%3E=8&committed=1")
    assert [row[3] for row in found.rows] == ['{"n": 8}', '{"n": 9}']
    assert (
        browser.get("/topics/orders/messages?from=offset&at=4&partition=0&limit=1").rows[0][3] == '{"n": 4}'
    )


def test_offsets_are_set_and_messages_written(browser: Browser) -> None:
    browser.get("/group/reset?name=half")
    fields = {"name": "half", "topic": "", "how": "shift_by", "value": "-2", "secret": browser.secret()}
    plan = browser.send("/group/reset", fields)
    assert plan.rows == [["orders-0", "5", "3", "-2"]]
    done = browser.send(
        "/group/reset/do", {"name": "half", "moves": plan.field("moves"), "secret": browser.secret()}
    )
    assert done.rows[0][1] == "3"
    record = {
        "value": "x",
        "value_form": "text",
        "key_form": "null",
        "partition": "1",
        "headers": '{"h": null}',
    }
    written = browser.send("/topics/orders/produce", {**record, "secret": browser.secret()})
    assert written.url.endswith("/topics/orders/1/0?written=1")
    assert written.rows == [["h", "null"]]


def test_a_setting_is_changed_and_given_back(browser: Browser) -> None:
    path = "/topics/orders/configs/change"

    def planned(setting: str, **fields: str) -> View:
        browser.get(f"{path}?setting={setting}")
        sent = {"setting": setting, "how": "set", "value": "", **fields, "secret": browser.secret()}
        return browser.send(path, sent)

    refused = planned("cleanup.policy", value="shred")
    assert (refused.status, "shred" in refused.problem) == (400, True)
    plan = planned("max.message.bytes", value="1MiB")
    assert plan.rows == [["max.message.bytes", "1048588 default", "1048576 topic"]]
    sent = {field: plan.field(field) for field in ("setting", "secret", "after_is_set", "after_value")}
    assert browser.send(f"{path}/do", sent).rows[0][:3] == ["max.message.bytes", "1048576", "topic"]
    plan = planned("max.message.bytes", how="unset")
    assert plan.rows == [["max.message.bytes", "1048576 topic", "1048588 default, as message.max.bytes"]]
    sent = {field: plan.field(field) for field in ("setting", "secret", "before_is_set", "before_value")}
    assert browser.send(f"{path}/do", sent).rows[0][:3] == ["max.message.bytes", "1048588", "default"]


def test_a_setting_of_a_broker_is_changed_and_given_back(browser: Browser) -> None:
    path = "/brokers/1/configs/change"

    def planned(scope: str, **fields: str) -> View:
        browser.get(f"{path}?setting=log.cleaner.threads")
        sent = {"setting": "log.cleaner.threads", "scope": scope, "how": "set", "value": "", **fields}
        return browser.send(path, {**sent, "secret": browser.secret()})

    def done(plan: View, *fields: str) -> View:
        sent = {field: plan.field(field) for field in ("setting", "scope", "secret", *fields)}
        return browser.send(f"{path}/do", sent)

    def own() -> list[str]:
        rows = browser.get("/brokers/1/configs?name=log.cleaner.threads").rows
        return rows[0][1:3]

    refused = planned("this", value="many")
    assert (refused.status, "many" in refused.problem) == (400, True)
    for scope, origin in (("this", "broker, dynamic"), ("all", "all brokers, dynamic")):
        plan = planned(scope, value="2")
        assert plan.rows == [["log.cleaner.threads", "1 default", f"2 {origin}"]]
        assert done(plan, "after_is_set", "after_value").status == 200
        eventually(lambda origin=origin: own() == ["2", origin])  # type: ignore[misc]  # of the round
        plan = planned(scope, how="unset")
        assert plan.rows == [["log.cleaner.threads", f"2 {origin}", "1 default"]]
        assert done(plan, "before_is_set", "before_value").status == 200
        eventually(lambda: own() == ["1", "default"])
