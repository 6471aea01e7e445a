"""A broker is killed and started again while share consumers work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from interop.conftest import ServerFactory
from interop.share_groups.conftest import begin_at_the_first_record
from interop.share_groups.test_share_consumers import produce, settled
from interop.share_groups.workers import Worker
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until

pytestmark = [pytest.mark.jvm, pytest.mark.capability("restart")]

RECORDS = 1000


def test_what_was_acknowledged_stays_so(new_server: ServerFactory, tmp_path: Path) -> None:
    numbers = list(range(RECORDS))
    with new_server(tmp_path) as server:
        servers = server.bootstrap_servers
        create_topics(servers, ("work",), 2)
        begin_at_the_first_record(servers, "g")
        with Worker(servers, "g", "work") as one, Worker(servers, "g", "work") as two:
            produce(servers, "work", numbers[: RECORDS // 2])
            wait_until(lambda: len(settled([*one.said, *two.said])) > 100, timeout=60)
            server.kill()
            server.start()
            # Of these the broker may have stored what it then could not answer, so nobody is told.
            doubtful = one.tried | two.tried
            produce(servers, "work", numbers[RECORDS // 2 :])
            wait_until(lambda: {*settled([*one.said, *two.said])} | doubtful == {*numbers}, timeout=120)
        counts = Counter(settled([*one.said, *two.said]))
    assert set(counts) | doubtful == set(numbers)
    assert all(count == 1 for count in counts.values()), "what was stored is not delivered again"
