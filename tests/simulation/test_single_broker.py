"""One broker keeps its promises through crashes, power cuts and a bad network.

A planted bug is found.
"""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS_OF_ONE_BROKER, Bug
from tests.simulation.run import simulate
from tests.simulation.seeds import chunks_of, require_found, seeds_of
from tests.simulation.single_broker import single_broker

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("chunk", chunks_of("one"))
def test_what_clients_were_promised_holds(chunk: int) -> None:
    outcomes = [simulate(single_broker, seed) for seed in seeds_of(chunk)]
    assert sum(each.acked for each in outcomes) > 100 * len(outcomes)
    assert sum(each.lives for each in outcomes) > 3 * len(outcomes)


@pytest.mark.parametrize("bug", BUGS_OF_ONE_BROKER, ids=lambda bug: bug.__name__)
def test_a_bug_is_found(bug: Bug) -> None:
    require_found(bug, single_broker)
