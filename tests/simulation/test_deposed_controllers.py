"""What a controller ordered before it was deposed harms no later topic.

A planted bug is found.
"""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS_OF_CONTROLLERS, Bug
from tests.simulation.deposed_controllers import deposed_controllers
from tests.simulation.run import simulate
from tests.simulation.seeds import chunks_of, require_found, seeds_of


@pytest.mark.parametrize("chunk", chunks_of("deposed"))
def test_a_late_order_deletes_no_later_topic(chunk: int) -> None:
    outcomes = [simulate(deposed_controllers, seed) for seed in seeds_of(chunk)]
    assert sum(each.faults["late order"] for each in outcomes) > 2 * len(outcomes)


@pytest.mark.parametrize("bug", BUGS_OF_CONTROLLERS, ids=lambda bug: bug.__name__)
def test_a_bug_of_controllers_is_found(bug: Bug) -> None:
    require_found(bug, deposed_controllers)
