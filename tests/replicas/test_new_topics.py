"""Topics are known from the controller until the metadata tree has said whether they exist."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.metadata.store import MetadataStoreError
from kafkapy.replicas.new_topics import NewTopics
from tests.replicas.held_files import until

STATE = PartitionState(1, 0, (1, 2), (1, 2))
ID, OTHER_ID = b"1" * 16, b"2" * 16
LOOK = 0.01
"""Seconds."""


class Tree:
    """The topics in the metadata tree, which may be away."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.answers = asyncio.Event()
        self.fails = 0
        self.asked = 0

    async def read(self, names: Sequence[str]) -> dict[str, Topic]:
        self.asked += 1
        if self.fails:
            self.fails -= 1
            raise MetadataStoreError("it may not be read")
        await self.answers.wait()
        return {name: self.topics[name] for name in names if name in self.topics}


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.fixture
async def known(tree: Tree) -> AsyncIterator[NewTopics]:
    made = NewTopics(tree.read)
    made.look_seconds = LOOK
    yield made
    await made.stop()


async def test_a_topic_is_known_until_the_image_has_it(known: NewTopics) -> None:
    image = MetadataImage()
    known.note("t", ID, 1, STATE)
    assert known.name(ID) == "t"
    assert known.added_to(image) is image  # how many partitions it has is not known yet
    known.note("odd", OTHER_ID, -1, STATE)
    known.note("odd", OTHER_ID, 1, STATE)
    known.note("t", ID, 0, STATE)
    known.note("t", ID, 0, STATE._replace(leader=2))
    assert known.added_to(image).topics == {"t": Topic("t", ID, (STATE._replace(leader=2), STATE))}
    known.image_changed(image, image.with_topics([Topic("another", OTHER_ID, (STATE,))]))
    assert known.name(ID) == "t"
    known.image_changed(image, image.with_topics([Topic("t", ID, (STATE, STATE))]))
    assert known.name(ID) is None


async def test_the_next_topic_of_a_name_replaces_the_first(known: NewTopics) -> None:
    known.note("t", ID, 0, STATE)
    known.note("t", ID, 1, STATE)
    known.note("t", OTHER_ID, 0, STATE)
    assert (known.name(ID), known.name(OTHER_ID)) == (None, "t")
    assert known.added_to(MetadataImage()).topics == {"t": Topic("t", OTHER_ID, (STATE,))}


@pytest.mark.parametrize("found", [None, Topic("late", OTHER_ID, ())])
async def test_what_the_tree_does_not_have_is_forgotten_when_it_answers(
    tree: Tree, known: NewTopics, found: Topic | None
) -> None:
    """A request may come after the deletion of its topic."""
    tree.topics = {"there": Topic("there", b"3" * 16, ())} | ({} if found is None else {"late": found})
    known.note("late", ID, 0, STATE)
    known.note("there", b"3" * 16, 0, STATE)
    tree.fails = 2
    await until(lambda: tree.asked == 3)
    assert known.name(ID) == "late"
    tree.answers.set()
    await until(lambda: known.name(ID) is None)
    assert known.name(b"3" * 16) == "there"


async def test_the_tree_is_not_asked_for_what_the_image_has_in_time(tree: Tree, known: NewTopics) -> None:
    known.note("t", ID, 0, STATE)
    known.image_changed(MetadataImage(), MetadataImage().with_topics([Topic("t", ID, (STATE,))]))
    known.note("u", OTHER_ID, 0, STATE)
    known.forget("u")
    await until(lambda: all(task.get_name() != "kafkapy-new-topics" for task in asyncio.all_tasks()))
    assert not tree.asked
    known.note("v", ID, 0, STATE)
    await until(lambda: tree.asked == 1)
