"""A cluster that does not answer, or comes back."""

from __future__ import annotations

import pytest

from kafkapy import Broker, Page
from kafkapy.errors import UserError
from tests.page.browsing import Browser, eventually


def test_a_page_tells_that_the_broker_is_gone_and_shows_it_again_when_it_is_back() -> None:
    with Broker() as broker:
        broker.create_topics({"orders": 1})
        with Page(broker.bootstrap_servers, timeout=2) as page:
            browser = Browser(page.url)
            assert browser.get("/topics/orders").status == 200
            broker.stop()
            eventually(lambda: browser.get("/topics/orders").status == 400)
            assert browser.get("/topics/orders").problem
            broker.start()
            eventually(lambda: browser.get("/topics/orders").status == 200)


def test_a_page_without_a_cluster_does_not_start() -> None:
    with pytest.raises(UserError, match="no broker answers at"):
        Page("127.0.0.1:1", timeout=0.5).start()


def test_a_port_that_is_taken_is_named(broker: Broker, page: Page) -> None:
    port = int(page.url.rstrip("/").rpartition(":")[2])
    with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
        Page(broker.bootstrap_servers, port=port).start()
