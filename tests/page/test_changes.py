"""What the page changes: records, and offsets of groups."""

from __future__ import annotations

import json

from confluent_kafka import Consumer, TopicPartition

from kafkapy import Broker, Page
from kafkapy.observe.record import Record
from tests.page.browsing import Browser
from tests.page.test_topics import commit


def produced(**fields: str) -> dict[str, str]:
    """The fields of the form, with these."""
    form = {"key": "", "key_form": "null", "value": "", "value_form": "text", "headers": "", "partition": ""}
    return form | fields


def test_a_message_is_written_and_shown(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 6})
    browser.get(f"/topics/{name}/produce")
    fields = produced(key="k", key_form="text", value="a\r\nb", headers='{"trace": "17", "none": null}')
    view = browser.send(f"/topics/{name}/produce", {**fields, "secret": browser.secret()})
    (record,) = broker.records(name)
    assert (record.key, record.value) == (b"k", b"a\nb")
    assert list(record.headers) == [("trace", b"17"), ("none", None)]
    assert record.partition == broker.produce(name, key="k", value="").partition
    assert view.url.endswith(f"/topics/{name}/{record.partition}/0?written=1")


def test_a_message_is_sent_again_as_it_is(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    sent = [
        broker.produce(name, key=b"\xff\x00", value=b"a\r\nb", headers=[("h", b"\x80"), ("n", None)]),
        broker.produce(name, key=None, value=None),
        broker.produce(name, key="", value="\n leading line breaks and <tags>\u20ac"),
    ]
    for offset in range(len(sent)):
        form = browser.get(f"/topics/{name}/produce?partition=0&offset={offset}")
        fields = {field: form.field(field) for field in ("key", "value", "headers", "partition", "secret")}
        for field in ("key", "value"):
            checked = form.text.partition(f'name="{field}_form"')[2].partition("checked")[0]
            fields[f"{field}_form"] = form_of(form.text, field)
            assert checked
            # As browsers send what is in a text area.
            fields[field] = fields[field].replace("\n", "\r\n")
        assert browser.send(f"/topics/{name}/produce", fields).status == 200
    records = broker.records(name)
    assert [content(record) for record in records[3:]] == [content(record) for record in sent]


def form_of(text: str, field: str) -> str:
    """The form that is chosen for a field."""
    import re

    found = re.search(rf'name="{field}_form" value="(\w+)" checked', text)
    assert found
    return found[1]


def content(record: Record) -> tuple[object, ...]:
    return record.key, record.value, list(record.headers)


def test_what_cannot_be_written_comes_back_in_the_form(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    browser.get(f"/topics/{name}/produce")
    for fields, problem in (
        ({"value": "!", "value_form": "base64"}, "value: the base64 cannot be decoded"),
        ({"headers": "[1]"}, "headers: expected JSON"),
        ({"key": "x"}, "key: null has no text"),
        ({"partition": "7"}, f"{name} has no partition 7: it has 1"),
        ({"value": "x" * 2_000_000}, "MESSAGE_TOO_LARGE"),
    ):
        view = browser.send(f"/topics/{name}/produce", {**produced(**fields), "secret": browser.secret()})
        assert view.status == 400
        assert problem in view.problem
        assert view.field("value") == fields.get("value", "")
    assert broker.records(name) == []


def reset(browser: Browser, **fields: str) -> dict[str, str]:
    browser.get(f"/group/reset?name={fields['name']}")
    return {"topic": "", "how": "to_earliest", "value": "", **fields, "secret": browser.secret()}


def test_offsets_are_set_after_a_dry_run_that_changes_nothing(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 2})
    for number in range(10):
        broker.produce(name, value=str(number), partition=0, timestamp=1_700_000_000_000 + number * 1000)
    commit(broker, name, name, 4)
    for how, value, after in (
        ("to_latest", "", 10),
        ("shift_by", "-3", 7),
        ("to_offset", "2", 2),
        ("to_time", "1700000004500", 5),
        ("to_offset", "99", 10),
        ("to_earliest", "", 0),
    ):
        before = committed(broker, name, name)
        plan = browser.send("/group/reset", reset(browser, name=name, how=how, value=value))
        assert plan.rows == [[f"{name}-0", f"{before}", f"{after}", f"{after - before:+}"]]
        assert committed(broker, name, name) == before
        fields = {field: plan.field(field) for field in ("name", "moves", "secret")}
        done = browser.send("/group/reset/do", fields)
        assert done.status == 200
        assert committed(broker, name, name) == after
        assert done.rows[0][1] == str(after)


def committed(broker: Broker, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def test_offsets_that_moved_since_the_dry_run_are_not_set(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    broker.produce(name, value="one")
    commit(broker, name, name, 0)
    plan = browser.send("/group/reset", reset(browser, name=name, how="to_latest"))
    commit(broker, name, name, 1)
    view = browser.send(
        "/group/reset/do", {"name": name, "moves": plan.field("moves"), "secret": browser.secret()}
    )
    assert "has moved in" in view.problem
    assert committed(broker, name, name) == 1


def test_offsets_of_a_group_with_members_are_not_set(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    consumer.subscribe([name])
    while not consumer.assignment():
        consumer.poll(0.1)
    view = browser.get(f"/group/reset?name={name}")
    assert view.problem == f"group {name} is Stable: stop its members first, then set its offsets"
    consumer.close()


def test_a_form_without_the_secret_changes_nothing(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    for secret in ({}, {"secret": ""}, {"secret": "x"}):
        assert browser.send(f"/topics/{name}/produce", {**produced(), **secret}).status == 403
    moves = json.dumps([[name, 0, None, 0]])
    assert browser.send("/group/reset/do", {"name": name, "moves": moves}).status == 403
    assert broker.records(name) == []


def test_a_page_that_is_read_only_has_no_forms_for_changes(broker: Broker, name: str) -> None:
    broker.create_topics({name: 1})
    broker.produce(name, value="x")
    with Page(broker.bootstrap_servers, read_only=True) as page:
        browser = Browser(page.url)
        assert "Produce" not in browser.get(f"/topics/{name}/messages").text
        assert "Edit and send again" not in browser.get(f"/topics/{name}/0/0").text
        for path in (f"/topics/{name}/produce", "/group/reset", "/group/reset/do"):
            assert browser.get(path).status == 404
            assert browser.send(path, produced()).status == 404
