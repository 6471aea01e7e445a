"""Three brokers keep their promises through crashes, blackouts and a bad network.

A planted bug is found.
"""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS_OF_THREE_BROKERS, Bug
from tests.simulation.run import simulate
from tests.simulation.seeds import chunks_of, require_found, seeds_of
from tests.simulation.three_brokers import three_brokers

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("chunk", chunks_of("three"))
def test_what_clients_were_promised_holds_in_a_cluster(chunk: int) -> None:
    outcomes = [simulate(three_brokers, seed) for seed in seeds_of(chunk)]
    assert sum(each.acked for each in outcomes) > 20 * len(outcomes)
    assert sum(each.commits for each in outcomes) > len(outcomes)


@pytest.mark.parametrize("bug", BUGS_OF_THREE_BROKERS, ids=lambda bug: bug.__name__)
def test_a_bug_of_a_cluster_is_found(bug: Bug) -> None:
    require_found(bug, three_brokers)
