"""Kafka Streams counts words exactly once, under kills.

Both it and the broker are killed within transactions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from interop.exactly_once.conftest import SEED
from interop.exactly_once.stage import Stage
from interop.exactly_once.streams_program import PROTOCOLS
from interop.exactly_once.word_count import (
    INPUT,
    OUTPUT,
    PARTITIONS,
    WORDS_A_LINE,
    Counts,
    Writer,
    word_count,
)
from interop.support.known_topics import create_topics

LINES: Final = 400


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_word_is_counted_once_though_streams_and_the_broker_are_killed(
    one_broker_stage: Stage, tmp_path: Path, protocol: str
) -> None:
    broker = one_broker_stage.broker
    create_topics(broker.bootstrap_servers, (INPUT, OUTPUT), PARTITIONS)
    counts = Counts(broker.bootstrap_servers)
    part = LINES * WORDS_A_LINE
    with word_count(one_broker_stage.servers, tmp_path, **PROTOCOLS[protocol]) as program:
        writer = Writer(broker.bootstrap_servers, SEED)
        program.start()
        writer.write(LINES)
        counts.read_to(part // 4)
        program.kill()
        program.start()
        counts.read_to(part)
        writer.write(LINES)
        counts.read_to(part + part // 4)
        broker.kill()
        broker.start()
        counts.read_to(part + part // 2)
        program.kill()
        program.start()
        counts.read_to(2 * part)
        assert counts.total == 2 * part, program.output()
        one_broker_stage.quiet()
        status = program.stop()
    counts.read_to(2 * part + 1, timeout=1)
    counts.close()
    assert {word: max(found) for word, found in counts.of.items()} == dict(writer.words)
    assert {word: found for word, found in counts.of.items() if found != list(range(1, len(found) + 1))} == {}
    assert status in (0, 143), program.output()
