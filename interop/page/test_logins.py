"""Logging in by the page, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from interop.page.conftest import TAGS
from kafkapy import Broker, Page
from tests.page.test_logins import CONFIG, MECHANISM


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Broker(config=CONFIG) as broker:
        broker.create_topics({"orders": 1})
        with Page(broker.bootstrap_servers, login=True, client_config=MECHANISM, timeout=5) as page:
            yield page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_user_logs_in_and_out_by_keys_alone(chromium: Browser, axe: str, url: str, scheme: str) -> None:
    context = chromium.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": 360, "height": 740}
    )
    tab = context.new_page()
    tab.goto(url)
    for user, password in (("admin", "wrong"), ("admin", "secret")):
        tab.evaluate(axe)
        assert tab.evaluate("tags => axe.run({runOnly: tags})", TAGS)["violations"] == []
        tab.get_by_label("User").fill(user)
        tab.keyboard.press("Tab")
        expect(tab.get_by_label("Password")).to_be_focused()
        tab.keyboard.type(password)
        tab.keyboard.press("Enter")
        if password == "wrong":
            expect(tab.get_by_role("alert")).to_contain_text("are user, password and", timeout=30_000)
    expect(tab.get_by_role("link", name="orders", exact=True)).to_be_visible(timeout=30_000)
    tab.evaluate(axe)
    assert tab.evaluate("tags => axe.run({runOnly: tags})", TAGS)["violations"] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.get_by_role("button", name="Log out").focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Log in")
    tab.goto(url)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Log in")
    context.close()
