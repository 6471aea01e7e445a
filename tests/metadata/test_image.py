"""The metadata image never changes, and lists its differences from the one before."""

from __future__ import annotations

from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.types import random_uuid


def topic(name: str) -> Topic:
    return Topic(name, random_uuid(), (PartitionState(1, 0, (1,), (1,)),))


def test_a_change_makes_a_new_image_that_shares_what_it_leaves_alone() -> None:
    a, b = topic("a"), topic("b")
    first = MetadataImage().with_topics([a])
    second = first.with_topics([b])
    assert list(first.topics) == ["a"]
    assert second.topics["a"] is a
    assert second.topics_by_id == {a.id: a, b.id: b}
    assert second.topic_name(b.id) == "b"
    assert second.topic_name(random_uuid()) is None


def test_a_partition_is_found_by_topic_and_index() -> None:
    image = MetadataImage().with_topics([topic("a")])
    assert image.partition("a", 0) is image.topics["a"].partitions[0]
    assert image.partition("a", 1) is image.partition("a", -1) is image.partition("b", 0) is None


def test_the_next_image_names_what_changed() -> None:
    first = MetadataImage().with_topics([topic("a"), topic("b"), topic("c")])
    second = first.with_topics([topic("b"), topic("d")], ["a"])
    assert list(second.changed_topics(first)) == ["a", "b", "d"]
    assert first.changed_topics(first) == ()


def test_images_further_apart_are_compared() -> None:
    first = MetadataImage().with_topics([topic("a"), topic("b"), topic("c")])
    third = first.with_topics([topic("b")]).with_topics([topic("d")], ["a"])
    assert list(third.changed_topics(first)) == ["a", "b", "d"]
    assert set(first.changed_topics(third)) == {"a", "b", "d"}


def test_what_is_no_change_of_topics_names_none() -> None:
    first = MetadataImage().with_topics([topic("a")])
    second = first.with_broker_config("1", {"log.retention.ms": "1"})
    assert second.changed_topics(first) == ()


def test_a_topic_that_is_made_again_has_its_new_id_only() -> None:
    old, new = topic("a_b"), topic("a_b")
    image = MetadataImage().with_topics([old]).with_topics([new])
    assert image.topics_by_id == {new.id: new}
    assert image.with_topics(deleted=["a_b"]).collisions == {}
