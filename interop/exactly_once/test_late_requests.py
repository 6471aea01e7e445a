"""Late frames of transactions tear nothing.

They arrive again, or only after the end of their transactions.

Three producers write transactions in turn, and a postbox delivers copies of their frames, some of which did
not arrive before: Produce, TxnOffsetCommit and EndTxn of the same transaction, or of one before. Without
KIP-890, such a frame ends the next transaction, becomes a part of it, or begins one that never ends
(KAFKA-17754, KAFKA-14884). KAFKAPY_LATE_REQUESTS sets how many are delivered.

A producer with one epoch for all its transactions is protected less, by Apache Kafka too: its frames are
delivered again only before its next transaction begins.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

import pytest

from interop.exactly_once.auditor import Auditor
from interop.exactly_once.conftest import SEED
from interop.exactly_once.journal import SUFFIX, Journal, JournaledHistory, merged
from interop.exactly_once.raw_transactions import ONE_EPOCH, OWN_EPOCHS, RawTransactions, Versions
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until
from tests.crash.load import Committer, read_pass
from tests.crash.results import note
from tests.network.raw_client import RawClient
from tests.promises.checker import check
from tests.promises.history import CommitFetched

REQUESTS: Final = int(os.environ.get("KAFKAPY_LATE_REQUESTS", "200"))
PARTITIONS: Final = 3
PRODUCERS: Final = 3


class Postbox:
    """Delivers frames on a connection of its own."""

    def __init__(self, client: RawClient, chance: random.Random) -> None:
        self._client, self._chance = client, chance
        self._frames: list[bytes] = []
        self.delivered = 0

    def post(self, frames: list[bytes]) -> None:
        """Frames of a transaction that has ended; older ones are forgotten."""
        self._frames = [*self._frames, *frames][-60:]

    def deliver(self, frames: list[bytes] | None = None) -> None:
        """Deliver one of these frames, or of those that were posted."""
        if frames := frames or self._frames:
            self._client.send(self._chance.choice(frames))
            self._client.receive_frame()
            self.delivered += 1


class Script:
    """One step after another, by a seed: whose turn it is, and what it does."""

    def __init__(self, producers: list[RawTransactions], postbox: Postbox, topic: str, seed: int) -> None:
        self._producers, self._postbox, self._topic = producers, postbox, topic
        self._chance = random.Random(seed)
        self._open: dict[str, bool] = {}
        """Producers within a transaction, and whether it is to commit."""
        self._kept_back: dict[str, set[int]] = {}
        self.transactions = 0

    def step(self) -> None:
        producer = self._chance.choice(self._producers)
        if producer.name not in self._open:
            producer.begin()
            self._open[producer.name] = self._chance.random() < 0.6
            self._kept_back[producer.name] = set()
            self.transactions += 1
        elif not producer.is_empty and self._chance.random() < 0.2:
            self._end(producer)
        else:
            self._write(producer)
        if self._chance.random() < 0.5:
            self._postbox.deliver(self._may_come_again(producer))

    def finish(self) -> None:
        for producer in self._producers:
            if producer.name in self._open and not producer.is_empty:
                self._end(producer)
                self._postbox.deliver(self._may_come_again(producer))

    def _write(self, producer: RawTransactions) -> None:
        index, count = self._chance.randrange(PARTITIONS), self._chance.randint(1, 20)
        kept_back = self._kept_back[producer.name]
        if self._chance.random() < 0.2:
            place = (self._topic, index)
            producer.commit_offset(place, producer.committed.get(place, 0) + count)
        elif index in kept_back:
            return
        elif (
            producer.versions is OWN_EPOCHS and not self._open[producer.name] and self._chance.random() < 0.3
        ):
            producer.keep_back((self._topic, index), count)
            kept_back.add(index)
        else:
            producer.send((self._topic, index), count)

    def _end(self, producer: RawTransactions) -> None:
        producer.end(self._open.pop(producer.name))
        if producer.versions is OWN_EPOCHS:
            self._postbox.post(producer.frames)

    def _may_come_again(self, producer: RawTransactions) -> list[bytes] | None:
        """Frames of the producer's last transaction, or None for any."""
        if producer.versions is OWN_EPOCHS:
            return None
        ended = producer.name not in self._open
        return producer.frames[-1:] if ended else producer.frames


@pytest.mark.parametrize("versions", [OWN_EPOCHS, ONE_EPOCH], ids=["own epochs", "one epoch"])
def test_late_requests_tear_nothing(
    bootstrap_servers: str, name: str, tmp_path: Path, versions: Versions, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--against") == "cluster":
        pytest.skip("this is about one broker")
    create_topics(bootstrap_servers, (name,), PARTITIONS, config={"retention.ms": "-1"})
    partitions = [(name, index) for index in range(PARTITIONS)]
    auditor = Auditor(bootstrap_servers, Journal(tmp_path / f"auditor{SUFFIX}"), partitions, offsets=True)
    auditor.start()
    news = JournaledHistory(Journal(tmp_path / f"producers{SUFFIX}"))
    with RawClient(bootstrap_servers) as client, RawClient(bootstrap_servers) as late:
        producers = [
            RawTransactions(client, f"{name}-{number}", news, versions) for number in range(PRODUCERS)
        ]
        postbox = Postbox(late, random.Random(SEED))
        script = Script(producers, postbox, name, SEED)
        while postbox.delivered < REQUESTS:
            script.step()
        script.finish()
    wait_until(auditor.has_read_all)
    auditor.finish()
    for producer in producers:
        committer = Committer(producer.name, bootstrap_servers, news)
        for place in producer.committed:
            committer.fetch(place)
        committer.close()
    starts = dict.fromkeys(partitions, 0)
    read_pass(bootstrap_servers, "last, committed", starts, news, committed=True)
    read_pass(bootstrap_servers, "last, uncommitted", starts, news)
    history = merged(tmp_path)
    findings = check(history)
    note("R15", "late and doubled requests", tried=postbox.delivered, transactions=script.transactions)
    assert auditor.problems == []
    assert findings == [], f"KAFKAPY_SEED={SEED}"
    fetched = {
        (each.group, each.partition): each.offset for each in history if isinstance(each, CommitFetched)
    }
    assert fetched == {(each.name, place): at for each in producers for place, at in each.committed.items()}
    assert auditor.count(name) > REQUESTS
