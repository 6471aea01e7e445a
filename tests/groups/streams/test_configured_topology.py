"""What a topology takes: partitions of internal topics, tasks, and topics that are missing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkapy.groups.streams.configured_topology import ConfiguredTopology, Status, configure
from kafkapy.groups.streams.topology import LARGEST, Topology, require_valid
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.streams_group_heartbeat import CopartitionGroup, Subtopology, TopicInfo
from tests.groups.streams.streams_world import subtopology, topology


def configured(topics: Mapping[str, int], *subtopologies: Subtopology) -> ConfiguredTopology:
    message = topology(*subtopologies)
    require_valid(message)
    return configure(Topology.read(message), topics.get)


def created(found: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.num_partitions for topic in found.missing}


def problem(found: ConfiguredTopology) -> tuple[Status, str]:
    assert found.problem is not None
    return found.problem.status, found.problem.detail


def test_a_subtopology_has_as_many_tasks_as_its_largest_source_has_partitions() -> None:
    found = configured({"a": 2, "b": 5}, subtopology("0", ["a", "b"]))
    assert found.is_ready
    assert found.num_tasks == {"0": 5}


def test_the_number_of_partitions_follows_through_a_chain_of_repartition_topics() -> None:
    found = configured(
        {"a": 3},
        subtopology("2", repartition=["y"], changelogs=["c"]),
        subtopology("1", repartition=["x"], sinks=["y"]),
        subtopology("0", ["a"], sinks=["x"]),
    )
    assert created(found) == {"x": 3, "y": 3, "c": 3}
    assert found.num_tasks == {"0": 3, "1": 3, "2": 3}
    assert problem(found) == (
        Status.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: c, x, y",
    )


def test_a_repartition_topic_keeps_the_number_that_the_application_gives_it() -> None:
    found = configured(
        {"a": 3},
        subtopology("0", ["a"], sinks=["x"]),
        subtopology("1", repartition={"x": 8}, changelogs=["c"]),
    )
    assert created(found) == {"x": 8, "c": 8}


def test_a_topic_that_exists_is_not_created() -> None:
    found = configured(
        {"a": 3, "x": 3}, subtopology("0", ["a"], sinks=["x"]), subtopology("1", repartition=["x"])
    )
    assert found.is_ready
    assert found.num_partitions == {"x": 3}


def test_a_repartition_topic_is_adapted_to_what_it_is_joined_with() -> None:
    found = configured(
        {"a": 3, "b": 6},
        subtopology("0", ["a"], sinks=["x"]),
        subtopology("1", ["b"], repartition=["x"], copartitioned=[((0,), (0,))]),
    )
    assert created(found) == {"x": 6}


def test_repartition_topics_that_are_joined_get_the_larger_number() -> None:
    found = configured(
        {"a": 3, "b": 6},
        subtopology("0", ["a"], sinks=["x"]),
        subtopology("1", ["b"], sinks=["y"]),
        subtopology("2", repartition=["x", "y"], copartitioned=[((), (0, 1))]),
    )
    assert created(found) == {"x": 6, "y": 6}


def test_a_repartition_topic_is_adapted_to_one_with_a_number_of_its_own() -> None:
    found = configured(
        {"a": 3},
        subtopology("0", ["a"], sinks=["x", "y"]),
        subtopology("1", repartition={"x": 0, "y": 5}, copartitioned=[((), (0, 1))]),
    )
    assert created(found) == {"x": 5, "y": 5}


def test_sources_that_are_joined_must_have_the_same_number_of_partitions() -> None:
    found = configured({"a": 3, "b": 6}, subtopology("0", ["a", "b"], copartitioned=[((0, 1), ())]))
    assert problem(found) == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=3, b=6}]",
    )


def test_a_number_of_its_own_must_be_that_of_the_sources() -> None:
    found = configured(
        {"a": 3, "b": 6},
        subtopology("0", ["a"], sinks=["x"]),
        subtopology("1", ["b"], repartition={"x": 4}, copartitioned=[((0,), (0,))]),
    )
    assert problem(found) == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [4] of repartition topic [x] doesn't match number of partitions [6] "
        "of the source topic.",
    )


def test_numbers_of_their_own_must_be_the_same() -> None:
    found = configured(
        {"a": 3},
        subtopology("0", ["a"], sinks=["x", "y"]),
        subtopology("1", repartition={"x": 4, "y": 5}, copartitioned=[((), (0, 1))]),
    )
    assert problem(found)[0] is Status.INCORRECTLY_PARTITIONED_TOPICS


def test_source_topics_must_exist() -> None:
    found = configured({"a": 3}, subtopology("0", ["e", "d", "a", "c", "b"]))
    assert problem(found) == (
        Status.MISSING_SOURCE_TOPICS,
        "Source topics b, c, d and 1 additional topics are missing.",
    )
    assert found.missing == ()


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        (
            [subtopology("0", repartition=["x"], sinks=["x"])],
            "Failed to compute number of partitions for all repartition topics. "
            "There may be loops in the topology that cannot be resolved.",
        ),
        (
            [subtopology("0", ["a"]), subtopology("1", repartition=["x"])],
            "Failed to compute number of partitions for all repartition topics, because "
            "a repartition source topic is never used as a sink topic.",
        ),
        ([subtopology("0")], "No source topics found for subtopology 0"),
        ([subtopology("0", ["a"]), subtopology("0", ["a"])], "There are two subtopologies 0."),
        ([subtopology("0", ["a b"])], "Topic names a b are not valid topic names."),
        (
            [subtopology("0", ["a"], changelogs=["__consumer_offsets"])],
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (
            [subtopology("0", ["a"], sinks=["x"], repartition={"x": -1})],
            "Repartition topic x cannot have -1 partitions.",
        ),
        ([subtopology("0", ["a"] * LARGEST)], "The topology has 5001 topics"),
        ([subtopology("0", ["huge"])], "The topology has more than 100000 tasks."),
    ],
)
def test_topologies_that_cannot_be_run_are_refused(subtopologies: list[Subtopology], message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        configured({"a": 3, "huge": 100_001}, *subtopologies)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert message in str(refused.value)


def test_a_changelog_cannot_have_a_number_of_its_own() -> None:
    wrong = subtopology("0", ["a"])
    wrong.state_changelog_topics = [TopicInfo(name="c", partitions=2)]
    with pytest.raises(KafkaError, match="must have an undefined partition count, but it is set to 2"):
        configured({"a": 3}, wrong)


@pytest.mark.parametrize("place", [1, -1])
def test_a_copartition_group_names_topics_that_exist(place: int) -> None:
    wrong = subtopology("0", ["a"])
    wrong.copartition_groups = [CopartitionGroup(source_topics=[place])]
    with pytest.raises(KafkaError, match="names topics that it does not have"):
        configured({"a": 3}, wrong)


def test_a_long_chain_of_repartition_topics_takes_no_long_time() -> None:
    count = 1_600
    chain = [
        subtopology(f"{number}", repartition=[f"r{number}"], sinks=[f"r{number + 1}"])
        for number in range(count - 1, 0, -1)
    ]
    found = configured(
        {"a": 3},
        *chain,
        subtopology("0", ["a"], sinks=["r1"]),
        subtopology("last", repartition=[f"r{count}"]),
    )
    assert set(created(found).values()) == {3}


def test_a_topology_is_the_same_after_it_was_stored() -> None:
    message = topology(
        subtopology("0", ["a", "b"], sinks=["x"], copartitioned=[((0, 1), ())]),
        subtopology("1", repartition={"x": 0, "y": 4}, changelogs=["c"]),
        epoch=4,
    )
    found = Topology.read(message)
    assert Topology.read(found.record()) == found
