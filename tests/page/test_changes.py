"""What the page changes: records, and offsets of groups."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafkapy import Broker, Page, SchemaRegistry
from kafkapy.cli import main
from kafkapy.observe.record import Record
from tests.page.browsing import Browser, View
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


ORDER: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "what", "type": "string"},
        {"name": "count", "type": ["null", "int"]},
        {"name": "size", "type": ["int", "long"]},
    ],
}


def test_an_avro_record_is_edited_as_json(broker: Broker, name: str) -> None:
    broker.create_topics({name: 1})
    context = SerializationContext(name, MessageField.VALUE)
    with (
        SchemaRegistry(broker.bootstrap_servers) as registry,
        SchemaRegistryClient({"url": registry.url}) as client,
    ):
        plain = json.dumps({**ORDER, "fields": ORDER["fields"][:2]})
        value = AvroSerializer(client, plain)({"what": "two apples", "count": 2}, context)
        broker.produce(name, key="k", value=value)
        ambiguous = AvroSerializer(client, json.dumps({**ORDER, "name": "Other"}))
        other = SerializationContext(f"{name}-other", MessageField.VALUE)
        broker.produce(name, value=ambiguous({"what": "figs", "count": None, "size": 9}, other))
        with Page(broker.bootstrap_servers, schema_registry=registry.url) as page:
            browser = Browser(page.url)
            form = browser.get(f"/topics/{name}/produce?partition=0&offset=0")
            assert form_of(form.text, "value") == "schema"
            assert form_of(form.text, "key") == "text"
            assert json.loads(form.field("value")) == {"what": "two apples", "count": 2}
            fields = produced(
                key="k",
                key_form="text",
                value=form.field("value"),
                value_form="schema",
                value_schema=form.field("value_schema"),
                secret=browser.secret(),
            )
            send = f"/topics/{name}/produce"
            assert browser.send(send, fields).status == 200
            edited = json.dumps({"what": "three apples", "count": None})
            assert browser.send(send, {**fields, "value": edited}).status == 200
            for wrong, why in (
                ({"value": '{"what": "x"}'}, "value: schema 1: the field count is missing"),
                ({"value": "{"}, "value: no JSON"),
                ({"value_schema": ""}, "value: give the id of the schema"),
                ({"value_schema": "999"}, "value: schema 999: "),
            ):
                view = browser.send(send, {**fields, **wrong})
                assert view.status == 400
                assert why in view.problem
                assert form_of(view.text, "value") == "schema"
            # Which branch of the union it was, JSON does not say.
            form = browser.get(f"/topics/{name}/produce?partition=0&offset=1")
            assert form_of(form.text, "value") == "base64"
        _, _, again, new = broker.records(name)
        assert again.value == value
        assert new.value is not None
        assert AvroDeserializer(client)(new.value, context) == {"what": "three apples", "count": None}


PROTO: Final = """syntax = "proto3";
package shop;
message Order {
  string what = 1;
  int64 count = 2;
  float weight = 3;
  message Line { string sku = 1; }
  repeated Line lines = 4;
}
message Parcel { map<string, int32> sizes = 1; }
"""


def test_a_protobuf_record_is_edited_as_json(broker: Broker, name: str) -> None:
    broker.create_topics({name: 1})
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            number = client.register_schema(f"{name}-value", Schema(PROTO, "PROTOBUF"))
        head = b"\0" + number.to_bytes(4, "big")
        order = head + b"\0" + b"\x0a\x04figs\x10\x03\x22\x04\x0a\x02A7"
        line, parcel = head + b"\x04\0\0" + b"\x0a\x02A7", head + b"\x02\x02" + b"\x0a\x05\x0a\x01a\x10\x01"
        unknown = head + b"\0" + b"\x0a\x04figs\x78\x01"
        for value in (order, line, parcel, unknown):
            broker.produce(name, value=value)
        with Page(broker.bootstrap_servers, schema_registry=registry.url) as page:
            browser = Browser(page.url)
            send = f"/topics/{name}/produce"

            def form(offset: int) -> View:
                return browser.get(f"{send}?partition=0&offset={offset}")

            def sent(view: View, **fields: str) -> View:
                given = {"value": view.field("value"), "value_schema": view.field("value_schema")}
                given |= {"value_form": "schema", "secret": browser.secret()}
                return browser.send(send, produced(**(given | fields)))

            assert json.loads(form(0).field("value")) == {
                "what": "figs",
                "count": "3",
                "lines": [{"sku": "A7"}],
            }
            assert form(1).field("value_schema") == f"{number} shop.Order.Line"
            assert f"schema {number} shop.Parcel" in browser.get(f"/topics/{name}/0/2").text
            for offset in range(3):
                assert sent(form(offset)).status == 200
            assert sent(form(0), value='{"what": "pears", "weight": 0.5}').status == 200
            for wrong, why in (
                ({"value": '{"whatever": 1}'}, f"value: schema {number}: "),
                ({"value": '{"count": 1.5}'}, f"value: schema {number}: "),
                ({"value": '{"weight": 0.123456789}'}, "0.123456789 would be rounded to 0.12345679"),
                ({"value": '{"weight": 1e-60}'}, "1e-60 would be rounded to 0.0"),
                ({"value": '{"what": "a", "what": "b"}'}, "duplicate"),
                ({"value": "{"}, f"value: schema {number}: "),
                ({"value_schema": f"{number} shop.Nothing"}, "it has no message shop.Nothing"),
            ):
                view = sent(form(0), **wrong)
                assert (view.status, why in view.problem) == (400, True), view.problem
                assert form_of(view.text, "value") == "schema"
            # A field that the schema does not have would be lost.
            assert form_of(form(3).text, "value") == "base64"
        values = [record.value for record in broker.records(name)][4:]
        assert values == [order, line, parcel, head + b"\0" + b"\x0a\x05pears\x1d\0\0\0\x3f"]


def test_a_record_with_a_json_schema_is_edited_as_it_is_written(broker: Broker, name: str) -> None:
    broker.create_topics({name: 1})
    person = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "by": {"$ref": "person.json"}}}
    with SchemaRegistry(broker.bootstrap_servers) as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            client.register_schema(f"{name}-person", Schema(json.dumps(person), "JSON"))
            reference = SchemaReference("person.json", f"{name}-person", 1)
            number = client.register_schema(f"{name}-value", Schema(json.dumps(schema), "JSON", [reference]))
        head = b"\0" + number.to_bytes(4, "big")
        broker.produce(name, value=head + b'{"id":1.0,\n "by": {"name":"Ann"}}')
        with Page(broker.bootstrap_servers, schema_registry=registry.url) as page:
            browser = Browser(page.url)
            send = f"/topics/{name}/produce"
            view = browser.get(f"{send}?partition=0&offset=0")
            assert form_of(view.text, "value") == "schema"
            fields = produced(value_form="schema", value_schema=str(number), secret=browser.secret())
            as_sent = view.field("value").replace("\n", "\r\n")
            assert browser.send(send, {**fields, "value": as_sent}).status == 200
            for wrong, why in (
                ('{"id": "x"}', f"value: schema {number}: 'x' is not of type 'integer' (at /id)"),
                ('{"by": {"name": 7}}', "7 is not of type 'string' (at /by/name)"),
                ("{", "value: no JSON"),
            ):
                refused = browser.send(send, {**fields, "value": wrong})
                assert (refused.status, why in refused.problem) == (400, True), refused.problem
            refused = browser.send(send, {**fields, "value": "{}", "value_schema": f"{number} shop.Order"})
            assert "it is json, and has no message shop.Order" in refused.problem
        first, again = broker.records(name)
        assert again.value == first.value


def test_without_a_registry_there_is_no_form_for_schemas(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    form = browser.get(f"/topics/{name}/produce")
    assert 'value="schema"' not in form.text
    fields = produced(value="{}", value_form="schema", value_schema="1", secret=browser.secret())
    assert "expected one of text, base64, null" in browser.send(f"/topics/{name}/produce", fields).problem


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


def test_a_message_that_is_too_large_for_a_form_is_edited_by_commands(name: str, tmp_path: Path) -> None:
    with Broker(config={"message.max.bytes": 20_000_000}) as broker, Page(broker.bootstrap_servers) as page:
        broker.create_topics({name: 1})
        # Each of these letters is six bytes of a form, and each line break six.
        fits, too_large = "\u00e9" * 1_300_000, "\n" * 1_400_000
        broker.produce(name, value=fits)
        broker.produce(name, key="k", value=too_large, headers=[("h", b"\xff")])
        browser = Browser(page.url)
        form = browser.get(f"/topics/{name}/produce?partition=0&offset=0")
        fields = produced(value=form.field("value"))
        assert browser.send(f"/topics/{name}/produce", {**fields, "secret": browser.secret()}).status == 200
        view = browser.get(f"/topics/{name}/produce?partition=0&offset=1")
        assert view.status == 400
        assert view.problem.startswith("it is too large for a form: take kafkapy consume")
        commands = re.findall(
            r"kafkapy (consume .*? --format json)|kafkapy (produce .*? --file FILE)", view.problem
        )
        file = tmp_path / "record.json"
        read = CliRunner().invoke(
            main, [*commands[0][0].split(), "--bootstrap-server", broker.bootstrap_servers]
        )
        assert read.exit_code == 0, read.output
        file.write_text(read.stdout)
        sent = CliRunner().invoke(
            main,
            [
                *(str(file) if word == "FILE" else word for word in commands[1][1].split()),
                "--bootstrap-server",
                broker.bootstrap_servers,
            ],
        )
        assert sent.exit_code == 0, sent.output
        records = broker.records(name)
        assert [content(record) for record in records[1::2]] == [content(records[1])] * 2


def settings_form(browser: Browser, configs: str, setting: str, **fields: str) -> dict[str, str]:
    """The fields of the form that changes a setting."""
    form = browser.get(f"{configs}/change?setting={setting}")
    sent = {"setting": setting, "how": "set", "value": form.field("value"), "secret": browser.secret()}
    return sent | fields


def setting(browser: Browser, configs: str, name: str) -> list[str]:
    """The value of a setting, and where it is from."""
    (row,) = [row for row in browser.get(configs).rows if row[0] == name]
    return row[1:3]


def test_a_setting_is_changed_after_a_dry_run_that_changes_nothing(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    path = f"/topics/{name}/configs/change"
    default = setting(browser, f"/topics/{name}/configs", "retention.ms")
    assert default == ["604800000", "default"]
    plan = browser.send(path, settings_form(browser, f"/topics/{name}/configs", "retention.ms", value="1d"))
    assert plan.rows == [["retention.ms", "604800000 default", "86400000 topic"]]
    assert setting(browser, f"/topics/{name}/configs", "retention.ms") == default
    sent = {field: plan.field(field) for field in ("setting", "secret", "after_is_set", "after_value")}
    done = browser.send(f"{path}/do", sent)
    assert done.url.endswith(f"/topics/{name}/configs?name=retention.ms")
    assert setting(browser, f"/topics/{name}/configs", "retention.ms") == ["86400000", "topic"]
    plan = browser.send(path, settings_form(browser, f"/topics/{name}/configs", "retention.ms", how="unset"))
    assert plan.rows == [["retention.ms", "86400000 topic", "the value of the brokers"]]
    sent = {field: plan.field(field) for field in ("setting", "secret", "before_is_set", "before_value")}
    assert browser.send(f"{path}/do", sent).status == 200
    assert setting(browser, f"/topics/{name}/configs", "retention.ms") == default


def test_what_a_setting_would_be_without_a_value_of_its_own_is_shown(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    path = f"/topics/{name}/configs/change"
    plan = browser.send(
        path, settings_form(browser, f"/topics/{name}/configs", "max.message.bytes", value="1MiB")
    )
    sent = {field: plan.field(field) for field in ("setting", "secret", "after_is_set", "after_value")}
    browser.send(f"{path}/do", sent)
    plan = browser.send(
        path, settings_form(browser, f"/topics/{name}/configs", "max.message.bytes", how="unset")
    )
    assert plan.rows == [["max.message.bytes", "1048576 topic", "1048588 default, as message.max.bytes"]]


def test_a_change_that_the_broker_refuses_comes_back_in_the_form(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    for key, value, problem in (
        ("retention.ms", "soon", "retention.ms"),
        ("cleanup.policy", "shred", "cleanup.policy"),
        ("retention.ms", "1.5ms", "is not a whole number"),
    ):
        view = browser.send(
            f"/topics/{name}/configs/change",
            settings_form(browser, f"/topics/{name}/configs", key, value=value),
        )
        assert view.status == 400
        assert problem in view.problem
        assert view.field("value") == value
    for key in ("nothing", "", "log.dirs"):
        assert "have no setting" in browser.get(f"/topics/{name}/configs/change?setting={key}").problem


def test_a_value_that_is_there_is_not_changed(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    view = browser.send(
        f"/topics/{name}/configs/change",
        settings_form(browser, f"/topics/{name}/configs", "retention.ms", how="unset"),
    )
    assert "Nothing would change" in view.text


def test_a_setting_that_changed_since_the_dry_run_is_not_changed(
    broker: Broker, browser: Browser, name: str
) -> None:
    broker.create_topics({name: 1})
    path = f"/topics/{name}/configs/change"
    sent = []
    for value in ("1d", "2d"):
        plan = browser.send(
            path, settings_form(browser, f"/topics/{name}/configs", "retention.ms", value=value)
        )
        sent.append(
            {field: plan.field(field) for field in ("setting", "secret", "after_is_set", "after_value")}
        )
    assert browser.send(f"{path}/do", sent[0]).status == 200
    assert "has changed since the dry run" in browser.send(f"{path}/do", sent[1]).problem
    assert setting(browser, f"/topics/{name}/configs", "retention.ms") == ["86400000", "topic"]


def reset(browser: Browser, **fields: str) -> dict[str, str]:
    browser.get(f"/group/reset?name={fields['name']}")
    return {"topic": "", "how": "to_earliest", "value": "", **fields, "secret": browser.secret()}


PLANNED: Final = ("scope", "setting", "secret")


def done(browser: Browser, plan: View, *fields: str) -> View:
    """Do what a dry run of a broker's setting has shown."""
    sent = {field: plan.field(field) for field in (*PLANNED, *fields)}
    return browser.send("/brokers/1/configs/change/do", sent)


def test_a_setting_of_a_broker_is_changed_after_a_dry_run() -> None:
    with Broker() as broker, Page(broker.bootstrap_servers) as page:
        browser, configs, name = Browser(page.url), "/brokers/1/configs", "log.cleaner.threads"
        path = f"{configs}/change"
        default = setting(browser, configs, name)
        assert default == ["1", "default"]
        plan = browser.send(path, settings_form(browser, configs, name, scope="this", value="2"))
        assert plan.rows == [[name, "1 default", "2 broker, dynamic"]]
        assert "would take this change, of broker 1" in plan.text
        assert setting(browser, configs, name) == default
        assert done(browser, plan, "after_is_set", "after_value").url.endswith(f"{configs}?name={name}")
        assert setting(browser, configs, name) == ["2", "broker, dynamic"]
        # For all brokers, below the value of this one.
        plan = browser.send(path, settings_form(browser, configs, name, scope="all", value="3"))
        assert plan.rows == [[name, "1 default", "3 all brokers, dynamic"]]
        assert "keeps it" in plan.text
        assert done(browser, plan, "after_is_set", "after_value").status == 200
        assert setting(browser, configs, name) == ["2", "broker, dynamic"]
        plan = browser.send(path, settings_form(browser, configs, name, scope="this", how="unset"))
        assert plan.rows == [[name, "2 broker, dynamic", "3 all brokers, dynamic"]]
        assert done(browser, plan, "before_is_set", "before_value").status == 200
        assert setting(browser, configs, name) == ["3", "all brokers, dynamic"]
        # Done already: the setting is no more as the dry run has seen it.
        again = done(browser, plan, "before_is_set", "before_value")
        assert f"{name} of broker 1 has changed since the dry run" in again.problem
        plan = browser.send(path, settings_form(browser, configs, name, scope="all", how="unset"))
        assert plan.rows == [[name, "3 all brokers, dynamic", "1 default"]]
        assert done(browser, plan, "before_is_set", "before_value").status == 200
        assert setting(browser, configs, name) == default
        refused = browser.send(path, settings_form(browser, configs, name, scope="this", value="none"))
        assert (refused.status, "none" in refused.problem) == (400, True)
        assert (
            "expected one of this, all"
            in browser.send(path, {"secret": browser.secret(), "scope": "x"}).problem
        )


def test_settings_of_a_broker_that_are_read_at_its_start_have_no_form(
    broker: Broker, browser: Browser
) -> None:
    view = browser.get("/brokers/1/configs?name=log.dirs")
    assert "change?setting=cordoned.log.dirs" in view.text
    assert "change?setting=log.dirs" not in view.text
    refused = browser.get("/brokers/1/configs/change?setting=log.dirs")
    assert "brokers have no setting 'log.dirs' that can be changed here" in refused.problem


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
    change = {"setting": "retention.ms", "after_is_set": "1", "after_value": "1"}
    assert browser.send(f"/topics/{name}/configs/change/do", change).status == 403
    assert setting(browser, f"/topics/{name}/configs", "retention.ms") == ["604800000", "default"]
    assert broker.records(name) == []


def test_a_page_that_is_read_only_has_no_forms_for_changes(broker: Broker, name: str) -> None:
    broker.create_topics({name: 1})
    broker.produce(name, value="x")
    with Page(broker.bootstrap_servers, read_only=True) as page:
        browser = Browser(page.url)
        assert "Produce" not in browser.get(f"/topics/{name}/messages").text
        assert "Edit and send again" not in browser.get(f"/topics/{name}/0/0").text
        assert "Change" not in browser.get(f"/topics/{name}/configs").text
        change = f"/topics/{name}/configs/change"
        for path in (change, f"{change}/do", f"/topics/{name}/produce", "/group/reset", "/group/reset/do"):
            assert browser.get(path).status == 404
            assert browser.send(path, produced()).status == 404
