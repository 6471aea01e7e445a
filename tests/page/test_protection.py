"""Who may use the page, and what it lets browsers do."""

from __future__ import annotations

import pytest

from kafkapy import Broker, Page
from kafkapy.page.protection import is_local
from tests.page.browsing import Browser


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_the_names_of_this_machine_are_answered(browser: Browser, host: str) -> None:
    assert browser.get("/topics", Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.", ""]
)
def test_another_name_for_this_machine_is_refused(browser: Browser, host: str) -> None:
    assert browser.get("/topics", Host=host).status == 421


def test_forms_of_other_sites_are_refused(broker: Broker, browser: Browser, name: str) -> None:
    broker.create_topics({name: 1})
    browser.get(f"/topics/{name}/produce")
    fields = {"value": "x", "value_form": "text", "key_form": "null", "secret": browser.secret()}
    path = f"/topics/{name}/produce"
    assert browser.send(path, fields, Origin="http://evil.example").status == 403
    assert browser.send(path, fields, Origin="null").status == 403
    assert browser.send(path, fields, Sec_Fetch_Site="cross-site").status == 403
    assert browser.send(path, fields, Sec_Fetch_Site="same-site").status == 403
    assert broker.records(name) == []
    assert browser.send(path, fields, Origin=browser.url).status == 200
    assert len(broker.records(name)) == 1


def test_no_answer_runs_scripts_of_others_or_is_framed_or_kept(browser: Browser) -> None:
    for path in ("/topics", "/nothing", "/topics/nothing", "/static/nothing"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_a_token_is_asked_for_where_others_reach_the_page(broker: Broker) -> None:
    with Page(broker.bootstrap_servers, host="0.0.0.0") as page:
        assert "/?token=" in page.url
        browser = Browser(page.url)
        assert browser.get("/topics").status == 401
        assert browser.get("/topics?token=x").status == 401
        assert browser.get("/topics", Cookie="kafkapy_page=x").status == 401
        entered = browser.get("/?token=" + page.url.partition("token=")[2])
        assert entered.status == 200
        assert "token" not in entered.url
        assert browser.get("/topics").status == 200  # by the cookie
        assert Browser(page.url).get("/static/page.css").status == 401


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("127.evil.example", False),
    ],
)
def test_only_loopback_addresses_are_those_of_this_machine(host: str, local: bool) -> None:
    assert is_local(host) is local


def test_a_token_can_be_given(broker: Broker) -> None:
    with Page(broker.bootstrap_servers, token="a token") as page:
        browser = Browser(page.url)
        assert browser.get("/topics").status == 401
        assert browser.get("//evil.example/?token=a%20token&name=x").url.startswith(browser.url)


@pytest.mark.parametrize("token", ['my token; a="x"&b', "schlüssel+%41#", "a,b"])
def test_a_token_may_have_any_characters(broker: Broker, token: str) -> None:
    with Page(broker.bootstrap_servers, token=token) as page:
        assert page.url.isascii()
        assert " " not in page.url
        browser = Browser(page.url)
        assert browser.get("/?" + page.url.partition("?")[2]).status == 200
        assert browser.get("/groups").status == 200  # by the cookie


def test_a_token_is_asked_for_if_the_page_has_a_login() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            ' username="admin" password="secret" user_admin="secret";'
        ),
    }
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "admin",
        "sasl_plain_password": "secret",
    }
    with Broker(config=config) as broker, Page(broker.bootstrap_servers, client_config=login) as page:
        browser = Browser(page.url)
        assert browser.get("/topics").status == 401
        assert browser.get("/topics?token=" + page.url.partition("token=")[2]).status == 200


def test_a_form_that_is_too_large_is_refused(browser: Browser) -> None:
    assert browser.send("/group/reset", {"moves": "x" * 9_000_000}).status == 413
