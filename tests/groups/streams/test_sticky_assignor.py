"""The sticky assignor: balance, stickiness and standby tasks, in random groups too."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from kafkapy.groups.streams.sticky_assignor import MemberSpec, StickyAssignor, SubtopologySpec
from kafkapy.groups.streams.tasks import Task, TaskSet, each_task


def assign(
    processes: Mapping[str, str],
    subtopologies: Mapping[str, tuple[int, bool]],
    *,
    standbys: int = 0,
    before: Mapping[str, TaskSet] | None = None,
) -> dict[str, TaskSet]:
    """The tasks of members, given with their processes."""
    return StickyAssignor().assign(
        {
            member: MemberSpec(process, (before or {}).get(member, TaskSet()))
            for member, process in processes.items()
        },
        {name: SubtopologySpec(*spec) for name, spec in subtopologies.items()},
        standbys,
    )


def active(found: Mapping[str, TaskSet], member: str) -> set[Task]:
    return set(each_task(found[member].active))


def standby(found: Mapping[str, TaskSet], member: str) -> set[Task]:
    return set(each_task(found[member].standby))


def test_tasks_are_divided_evenly() -> None:
    found = assign({"a": "p", "b": "q"}, {"0": (4, False), "1": (3, True)})
    assert sorted(len(active(found, member)) for member in "ab") == [3, 4]


def test_a_process_gets_tasks_for_each_of_its_threads() -> None:
    found = assign({"a": "p", "b": "p", "c": "q"}, {"0": (6, False)})
    assert [len(active(found, member)) for member in "abc"] == [2, 2, 2]


def test_nothing_moves_when_nothing_changes() -> None:
    processes, tasks = {"a": "p", "b": "q", "c": "r"}, {"0": (5, True), "1": (4, True)}
    before = assign(processes, tasks, standbys=1)
    assert assign(processes, tasks, standbys=1, before=before) == before


def test_only_as_many_tasks_move_as_a_new_member_needs() -> None:
    before = assign({"a": "p", "b": "q"}, {"0": (6, False)})
    found = assign({"a": "p", "b": "q", "c": "r"}, {"0": (6, False)}, before=before)
    assert [len(active(found, member)) for member in "abc"] == [2, 2, 2]
    for member in "ab":
        assert active(found, member) <= active(before, member)


def test_the_copies_of_a_lost_process_become_active() -> None:
    before = assign({"a": "p", "b": "q", "c": "q"}, {"0": (6, True)}, standbys=1)
    found = assign({"b": "q", "c": "q"}, {"0": (6, True)}, standbys=1, before=before)
    for member in "bc":
        assert (
            active(before, member)
            <= active(found, member)
            <= (active(before, member) | standby(before, member))
        )


def test_there_are_no_more_copies_than_processes() -> None:
    found = assign({"a": "p", "b": "p", "c": "q"}, {"0": (4, True), "1": (2, False)}, standbys=2)
    copies = Counter(task for member in "abc" for task in standby(found, member))
    assert copies == dict.fromkeys((Task("0", number) for number in range(4)), 1)


def test_nobody_gets_tasks_of_a_group_without_members() -> None:
    assert assign({}, {"0": (4, True)}) == {}


@pytest.mark.parametrize("seed", range(200))
def test_random_groups_are_balanced_and_complete(seed: int) -> None:
    chance = random.Random(seed)
    processes = {f"m{number}": f"p{chance.randrange(5)}" for number in range(chance.randint(1, 8))}
    tasks = {
        f"{number}": (chance.randint(1, 9), chance.random() < 0.7) for number in range(chance.randint(1, 4))
    }
    standbys = chance.randrange(3)
    found: dict[str, TaskSet] = {}
    for _ in range(6):
        found = assign(processes, tasks, standbys=standbys, before=found)
        check(found, processes, tasks, standbys)
        change = chance.random()
        if change < 0.4 and len(processes) > 1:
            del processes[chance.choice(list(processes))]
        elif change < 0.8:
            processes[f"n{chance.random()}"] = f"p{chance.randrange(5)}"
        else:
            tasks["0"] = chance.randint(1, 9), tasks["0"][1]


def check(
    found: Mapping[str, TaskSet],
    processes: Mapping[str, str],
    tasks: Mapping[str, tuple[int, bool]],
    standbys: int,
) -> None:
    everything = {Task(name, number): spec[1] for name, spec in tasks.items() for number in range(spec[0])}
    assert Counter(task for each in found for task in active(found, each)) == dict.fromkeys(everything, 1)
    copies = min(standbys, len(set(processes.values())) - 1)
    assert Counter(task for each in found for task in standby(found, each)) == {
        task: copies for task, is_stateful in everything.items() if is_stateful and copies
    }
    held = Counter(
        (processes[each], task) for each in found for task in (*active(found, each), *standby(found, each))
    )
    assert all(count == 1 for count in held.values()), "copies of a task are in different processes"
    counts = [len(active(found, each)) for each in found]
    assert max(counts) <= -(-len(everything) // len(found)) + 1, "no member has much more than its share"
    assert not any(each.warmup for each in found.values())
