"""A group of Kafka Streams, by its own protocol, on the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.exactly_once.conftest import SEED
from interop.exactly_once.streams_program import PROTOCOLS
from interop.exactly_once.word_count import (
    APPLICATION,
    INPUT,
    OUTPUT,
    PARTITIONS,
    WORDS_A_LINE,
    Counts,
    Writer,
    word_count,
)
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from kafkapy import Broker, Page
from tests.page.browsing import Browser, eventually

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

LINES = 100
REPARTITION = f"{APPLICATION}-counts-repartition"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with skipped_without_jars():
        kafka_jars()
    with Broker() as started:
        started.create_topics({INPUT: PARTITIONS, OUTPUT: PARTITIONS})
        yield started


def test_a_streams_group_is_shown_and_its_input_is_read_again(broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    with Page(servers) as page, word_count(servers, tmp_path, **PROTOCOLS["streams"]) as program:
        browser = Browser(page.url)
        writer, counts = Writer(servers, SEED), Counts(servers)
        writer.write(LINES)
        program.start()
        counts.read_to(LINES * WORDS_A_LINE)
        counts.close()
        eventually(
            lambda: (
                browser.get("/groups?type=streams").rows
                == [[APPLICATION, "streams", "Stable", f"{INPUT} {REPARTITION}", str(2 * PARTITIONS), "0"]]
            )
        )
        rows = browser.get(f"/group?name={APPLICATION}").rows
        assert [row[0] for row in rows[: 2 * PARTITIONS]] == [
            f"{topic}-{number}" for topic in (INPUT, REPARTITION) for number in range(PARTITIONS)
        ]
        assert all(row[4].endswith("StreamThread-1-consumer /127.0.0.1") for row in rows[: 2 * PARTITIONS])
        assert rows[-1][3].startswith(f"{2 * PARTITIONS}: {INPUT}-0, {INPUT}-1, ")
        assert "is Stable: stop its members first" in browser.get(f"/group/reset?name={APPLICATION}").problem
        program.stop()
        eventually(lambda: browser.get(f"/group/reset?name={APPLICATION}").status == 200)
        fields = {"name": APPLICATION, "topic": "", "how": "to_earliest", "value": ""}
        plan = browser.send("/group/reset", {**fields, "secret": browser.secret()})
        # Its internal topic stays where it is: what is read again is written there anew.
        assert [row[0] for row in plan.rows] == [f"{INPUT}-{number}" for number in range(PARTITIONS)]
        moves = {field: plan.field(field) for field in ("name", "moves", "secret")}
        done = browser.send("/group/reset/do", moves)
        assert [row[1] for row in done.rows[:PARTITIONS]] == ["0"] * PARTITIONS
        assert [row[3] for row in done.rows[PARTITIONS : 2 * PARTITIONS]] == ["0"] * PARTITIONS
