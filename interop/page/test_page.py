"""The page in Chromium: for the keyboard, for a phone, for everybody."""

from __future__ import annotations

import re

import pytest
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from interop.page.conftest import TAGS, Shown, write_requests

VIEWS = {
    "topics": "/topics?internal=1",
    "topic": "/topics/orders",
    "messages": "/topics/orders/messages",
    "no messages": "/topics/empty/messages?where=a=1&limit=7",
    "message": "/topics/orders/0/0",
    "produce": "/topics/orders/produce?partition=0&offset=0",
    "produce avro": "/topics/avro/produce?partition=0&offset=0",
    "settings": "/topics/orders/configs",
    "a setting": "/topics/orders/configs/change?setting=retention.ms",
    "settings of a broker": "/brokers/1/configs",
    "a setting of a broker": "/brokers/1/configs/change?setting=log.cleaner.threads",
    "groups": "/groups",
    "group": "/group?name=billing",
    "reset": "/group/reset?name=stopped",
    "transactions": "/transactions",
    "cluster": "/cluster",
    "pipelines": "/pipelines",
    "pipeline": "/pipeline?file=0&name=orders",
    "faults": "/faults",
    "requests": "/requests",
    "one kind of requests": "/requests?api=Produce",
    "error": "/topics/nothing",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible(chromium: Browser, shown: Shown, axe: str, scheme: str) -> None:
    context = chromium.new_context(color_scheme="dark" if scheme == "dark" else "light")
    tab = context.new_page()
    found = {}
    for name, path in VIEWS.items():
        tab.goto(shown.url + path)
        tab.evaluate(axe)
        told = tab.evaluate("tags => axe.run({runOnly: tags})", TAGS)
        assert told["passes"]
        for each in told["violations"]:
            found[name, each["id"]] = [node["html"][:200] for node in each["nodes"]]
    context.close()
    assert found == {}


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_every_view_without_scrolling_sideways(
    chromium: Browser, shown: Shown, view: str
) -> None:
    context = chromium.new_context(viewport={"width": 360, "height": 740})
    tab = context.new_page()
    tab.goto(shown.url + VIEWS[view])
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()


@pytest.mark.parametrize("width", [360, 1200])
def test_what_a_plot_says_is_large_enough_to_be_read(chromium: Browser, shown: Shown, width: int) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 740})
    tab = context.new_page()
    tab.goto(shown.url + "/pipeline?file=0&name=orders")
    drawn = tab.locator("figure").first.locator("text:visible, figcaption span:visible")
    expect(drawn.first).to_be_visible()
    for each in drawn.all():
        box = each.bounding_box()
        assert box is not None
        assert box["height"] >= 11, each.text_content()
    context.close()


def test_topics_are_filtered_and_opened_by_keys_alone(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/")
    tab.keyboard.press("Tab")
    expect(tab.get_by_text("Skip to the content")).to_be_focused()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    expect(tab.get_by_label("Name contains")).to_be_focused()
    tab.keyboard.type("pay")
    tab.keyboard.press("Enter")
    expect(tab.locator("tbody tr")).to_have_count(1)
    tab.get_by_role("link", name="payments", exact=True).focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("payments")


def test_a_message_is_written_found_and_sent_again(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/topics/empty/produce")
    tab.locator("textarea[name=value]").fill('{"who": "Ann",\n "n": 1}')
    tab.get_by_role("button", name="Send").click()
    expect(tab.get_by_role("heading", name="Value")).to_be_visible()
    expect(tab.locator("pre")).to_contain_text('"who": "Ann"')
    tab.get_by_role("link", name="Edit and send again").click()
    tab.locator("textarea[name=value]").fill('{"who": "Bob"}')
    tab.get_by_role("button", name="Send").click()
    tab.get_by_role("link", name="Messages").click()
    tab.locator("textarea[name=where]").fill("who=Bob")
    tab.get_by_role("button", name="Show").click()
    expect(tab.locator("tbody tr")).to_have_count(1)
    assert [record.value for record in shown.broker.records("empty")] == [
        b'{"who": "Ann",\n "n": 1}',
        b'{"who": "Bob"}',
    ]


def test_an_avro_record_is_edited_as_json(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/topics/avro/0/0")
    tab.get_by_role("link", name="Edit and send again").click()
    value = tab.get_by_role("group", name="Value")
    expect(value.get_by_role("radio", name="schema")).to_be_checked()
    expect(value.get_by_label("Id of the schema")).to_have_value("1")
    value.locator("textarea").fill('{"what": "a pear"}')
    tab.get_by_role("button", name="Send").click()
    expect(tab.locator("pre")).to_contain_text('"what": "a pear"')
    old, new = shown.broker.records("avro")
    assert old.value is not None
    assert new.value == old.value[:5] + b"\x0ca pear"


def test_content_of_records_is_text_when_it_is_opened(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/topics/orders/messages?limit=3")
    tab.locator("summary").last.click()
    expect(tab.locator("pre").last).to_contain_text("onerror")
    assert tab.locator("main img").count() == 0
    tab.goto(shown.url + "/topics/payments/0/0")
    expect(tab.locator("pre").last).to_contain_text("<script>alert(2)</script>")


def test_messages_come_while_one_looks(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/topics/orders/messages?limit=5")
    rows = tab.locator("tbody tr")
    expect(rows).to_have_count(5)
    tab.get_by_label("Live").check()
    shown.broker.produce("orders", value="it came")
    expect(rows.first).to_contain_text("it came", timeout=20_000)
    expect(tab.get_by_role("status")).to_contain_text("1 came")
    tab.get_by_label("Live").uncheck()


def test_the_lag_is_refreshed_until_that_is_switched_off(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/group?name=billing")
    lag = tab.locator("dt", has_text="Lag").locator("xpath=following-sibling::dd")
    before = int(lag.inner_text().replace(",", ""))
    tab.evaluate("window.same = true")
    for partition in range(6):
        shown.broker.produce("orders", value="more", partition=partition)
    expect(lag).not_to_have_text(f"{before:,}", timeout=30_000)
    assert tab.evaluate("window.same")  # the view was not loaded anew
    expect(tab.locator("svg polyline")).to_be_visible(timeout=60_000)
    expect(tab.get_by_role("img")).to_have_accessible_name(re.compile("Lag from .* to .*: .* at the end"))
    tab.get_by_label("Refresh").uncheck()


def test_offsets_are_set_after_they_were_shown(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/group?name=stopped")
    tab.get_by_role("link", name="Set offsets").click()
    tab.get_by_label("to the first record").check()
    tab.get_by_role("button", name="Show what would change").click()
    expect(tab.locator("tbody tr")).to_have_text(re.compile(r"payments-0\s*1\s*0\s*-1"))
    tab.get_by_role("button", name="Set 1 offsets").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("stopped")
    expect(tab.locator("tbody tr").first.locator("td").first).to_have_text("0")


def test_a_setting_is_changed_after_it_was_shown(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/topics/empty/configs?name=retention.ms")
    tab.get_by_role("link", name="Change retention.ms", exact=True).click()
    tab.get_by_label("Value", exact=True).fill("2d")
    tab.get_by_role("button", name="Show what would change").click()
    expect(tab.locator("tbody tr")).to_contain_text("172800000 topic")
    tab.get_by_role("button", name="Change retention.ms").click()
    expect(tab.get_by_role("row", name="retention.ms 172800000 topic")).to_be_visible()


def test_a_setting_of_a_broker_is_changed_after_it_was_shown(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/cluster")
    tab.get_by_role("link", name="its settings").click()
    tab.get_by_role("link", name="Change log.cleaner.threads", exact=True).click()
    tab.get_by_label("all brokers that have no value").check()
    tab.get_by_label("Value", exact=True).fill("2")
    tab.get_by_role("button", name="Show what would change").click()
    expect(tab.locator("tbody tr")).to_contain_text("2 all brokers, dynamic")
    tab.get_by_role("button", name="Change log.cleaner.threads").click()
    row = tab.get_by_role("row", name="log.cleaner.threads 2 all brokers, dynamic")
    expect(row).to_be_visible()


def test_a_fault_is_switched_on_and_off_and_its_counts_come(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/faults")
    tab.get_by_label("Of: an API").fill("list_groups")
    tab.get_by_label("What happens").fill("delay")
    tab.get_by_label("Arguments").fill("seconds=0.01")
    tab.get_by_role("button", name="Switch it on").click()
    row = tab.get_by_role("row", name="list_groups().delay(0.01)")
    expect(row).to_be_visible()
    tab.evaluate("window.same = true")
    admin = AdminClient({"bootstrap.servers": shown.broker.bootstrap_servers})
    assert admin.list_consumer_groups().result().errors == []
    expect(row.locator("td").nth(1)).not_to_have_text("0", timeout=30_000)
    assert tab.evaluate("window.same")  # the view was not loaded anew
    row.get_by_role("button", name="Switch off").click()
    expect(row).to_have_count(0)


def test_requests_come_while_one_looks_and_are_opened(tab: Tab, shown: Shown) -> None:
    tab.goto(shown.url + "/requests?api=Produce")
    rows = tab.locator("tbody tr")
    before = rows.count()
    tab.get_by_label("Live").check()
    write_requests(shown.broker, shown.writer)
    expect(rows).to_have_count(before + 1, timeout=20_000)
    expect(rows.first).to_contain_text("Produce v")
    tab.get_by_label("Live").uncheck()
    rows.first.get_by_role("link").click()
    expect(tab.get_by_label("Request", exact=True)).to_contain_text('"acks": -1')
    expect(tab.get_by_label("Answer", exact=True)).to_contain_text('"baseOffset"')


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_previews_are_accessible(chromium: Browser, shown: Shown, axe: str, scheme: str) -> None:
    context = chromium.new_context(color_scheme="dark" if scheme == "dark" else "light")
    tab = context.new_page()
    for path, value in (
        ("/topics/orders/configs/change?setting=retention.ms", "2d"),
        ("/brokers/1/configs/change?setting=background.threads", "9"),
        ("/group/reset?name=stopped", ""),
    ):
        tab.goto(shown.url + path)
        if value:
            tab.get_by_label("Value", exact=True).fill(value)
        else:
            tab.get_by_label("to the end").check()
        tab.get_by_role("button", name="Show what would change").click()
        expect(tab.locator("tbody tr")).to_have_count(1)
        tab.evaluate(axe)
        assert tab.evaluate("tags => axe.run({runOnly: tags})", TAGS)["violations"] == []
    context.close()


def test_all_but_refreshing_works_without_scripts(chromium: Browser, shown: Shown) -> None:
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(shown.url + "/topics/orders/messages?limit=5&from=oldest")
    expect(tab.locator("tbody tr")).to_have_count(5)
    tab.get_by_role("link", name="Newer").click()
    expect(tab.locator("tbody tr")).to_have_count(5)
    context.close()
