"""What a controller ordered before it was deposed harms no topic that came later, and a bug is found."""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS_OF_CONTROLLERS, Bug
from tests.simulation.deposed_controllers import deposed_controllers
from tests.simulation.run import simulate
from tests.simulation.seeds import require_found


@pytest.mark.parametrize("seed", range(5))
def test_a_late_order_deletes_no_later_topic(seed: int) -> None:
    assert simulate(deposed_controllers, seed).faults["late order"] > 1


@pytest.mark.parametrize("bug", BUGS_OF_CONTROLLERS, ids=lambda bug: bug.__name__)
def test_a_bug_of_controllers_is_found(bug: Bug) -> None:
    require_found(bug, deposed_controllers)
