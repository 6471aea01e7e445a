"""Names of partitions' directories: what is read, and what Apache Kafka reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.directory_names import (
    DirectoryKind,
    deleted_name,
    future_name,
    parse_directory_name,
    stops_kafka,
    stray_name,
)

HEX = "0123456789abcdef" * 2
LONGEST = "t" * 249

NAMES = [
    ("orders-0", ("orders", 0, DirectoryKind.LOG)),
    ("orders-2147483647", ("orders", 2147483647, DirectoryKind.LOG)),
    ("a.b_c-d-12", ("a.b_c-d", 12, DirectoryKind.LOG)),
    ("-0", None),
    ("--0", ("-", 0, DirectoryKind.LOG)),
    ("orders-0-delete-1", ("orders-0-delete", 1, DirectoryKind.LOG)),
    (LONGEST + "-0", (LONGEST, 0, DirectoryKind.LOG)),
    (f"orders-0.{HEX}-future", ("orders", 0, DirectoryKind.FUTURE)),
    (f"orders-0.{HEX}-delete", ("orders", 0, DirectoryKind.DELETED)),
    (f"orders-0.{HEX}-stray", ("orders", 0, DirectoryKind.STRAY)),
    (f"orders-0.{HEX}-0.{HEX}-delete", (f"orders-0.{HEX}", 0, DirectoryKind.DELETED)),
    ("orders", None),
    ("orders-", None),
    ("orders-x", None),
    ("orders-2147483648", None),
    ("orders-0.partial", None),
    ("orders-0-delete", None),
    ("orders-0.-delete", None),
    (f"orders.{HEX}-delete", None),
    (f"orders-0.{HEX}-removed", None),
    ("orders-0.v1.old-delete", None),
    ("lost+found", None),
    # What Kafka reads and never writes:
    ("orders-007", None),
    ("orders-+7", None),
    ("two words-0", None),
    ("t" * 250 + "-0", None),
    ("orders-0.old-stray", None),
    ("remote-log-index-cache", None),
]
READ_BY_KAFKA_ALONE = {name for name, _ in NAMES[-6:]}


@pytest.mark.parametrize(("name", "said"), NAMES)
def test_a_name_says_whose_directory_it_is_and_why_it_is_there(
    name: str, said: tuple[str, int, DirectoryKind] | None
) -> None:
    parsed = parse_directory_name(name)
    assert said == (None if parsed is None else (*parsed.topic_partition, parsed.kind))


@pytest.mark.parametrize(("name", "said"), NAMES)
def test_kafka_starts_with_whatever_is_read_here_and_with_more(
    name: str, said: tuple[str, int, DirectoryKind] | None
) -> None:
    assert stops_kafka(name) == (said is None and name not in READ_BY_KAFKA_ALONE)


@pytest.mark.parametrize(
    ("make", "kind"), [(deleted_name, DirectoryKind.DELETED), (stray_name, DirectoryKind.STRAY)]
)
def test_the_name_of_a_directory_that_is_put_aside_is_never_too_long(
    make: Callable[[TopicPartition], str], kind: DirectoryKind
) -> None:
    name = make(TopicPartition(LONGEST, 12))
    assert len(name) == 255
    parsed = parse_directory_name(name)
    assert parsed is not None
    assert parsed.kind is kind
    assert LONGEST.startswith(parsed.topic_partition.topic)


def test_a_copy_keeps_the_topic_in_its_name_and_has_none_if_that_is_too_long() -> None:
    partition = TopicPartition("orders", 3)
    name = future_name(partition)
    assert name is not None
    assert parse_directory_name(name) == (partition, DirectoryKind.FUTURE)
    assert future_name(TopicPartition(LONGEST, 3)) is None


def test_no_two_directories_are_given_one_name() -> None:
    partition = TopicPartition("orders", 3)
    assert deleted_name(partition) != deleted_name(partition)
