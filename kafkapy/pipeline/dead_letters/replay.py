"""Replays dead letters into a topic, each once, however often the command is repeated.

A replayed record has the key, value, timestamp and headers of the source record. Its header `kafkapy.source`
(and `kafkapy.topic-id`, if known) names the place of the record that failed. If it fails again, its dead
letter names that place as `kafkapy.replayed-from`. A record replayed into its own topic goes to its own
partition. Records of a former topic with the same name are replayed only on request.

The state's dlq.json lists what was replayed, by target topic, then by source partition (with the source's
topic id if known) and offsets. Duplicates of a dead letter thus count as one:

    {"orders": {"done": {"orders-0@TOPIC_ID": [[3, 3], [7, 9]]}, "since": {"0": 120} | null}}

`since` is set while records are sent: the end offsets of the target before the first of them. A replay that
was killed or failed leaves it. The next one looks for sources that have arrived from there on, and sends the
others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException

from kafkapy.pipeline.dead_letters.reader import (
    DeadLetter,
    Source,
    dead_letter_topic,
    dead_letters,
    texts,
)
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics

_FILE: Final = "dlq.json"
_CHUNK: Final = 5_000
_TIMEOUT: Final = 60.0
_PRODUCER: Final = {
    "partitioner": "murmur2_random",  # as Java clients do, for records without a given partition
    "compression.type": "zstd",
    "message.max.bytes": 104_857_600,  # the topic's max.message.bytes decides
}


@dataclass(kw_only=True)
class Replayed:
    """The entry of one target topic in dlq.json."""

    done: set[Source] = field(default_factory=set)
    since: dict[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    topic: str
    replayed: int
    before: int


def replay_dead_letters(
    definition: PipelineDefinition,
    *,
    to: str | None = None,
    where_error: str | None = None,
    former: bool = False,
) -> ReplayResult:
    """Sends the dead letters that were not replayed into the target before.

    `where_error` selects those whose error contains the text. `former` selects those of a former topic of the
    same name instead of the present one.
    """
    target = to or definition.topic
    if target == dead_letter_topic(definition):
        raise PipelineError(f"--to {target}: this is the dead-letter topic; name another topic")
    topics, state = Topics(definition.bootstrap, definition.kafka_options), State.of(definition)
    partitions = topics.partitions(target)
    with state.lock("dlq.lock", held="its dead letters are being replayed"):
        replayed = _read(state, target)
        if replayed.since is not None:
            replayed.done |= _arrived(topics, target, replayed.since)
        sent = before = 0
        chunk: list[DeadLetter] = []
        for letter in dead_letters(definition, topics):
            if letter.former != former:
                continue
            if where_error is not None and where_error.lower() not in letter.error.lower():
                continue
            if letter.source in replayed.done:
                before += 1
                continue
            chunk.append(letter)
            if len(chunk) == _CHUNK:
                _send_chunk(topics, state, target, partitions, chunk, replayed)
                sent, chunk = sent + len(chunk), []
        _send_chunk(topics, state, target, partitions, chunk, replayed)
        replayed.since = None
        _write(state, target, replayed)
    return ReplayResult(topic=target, replayed=sent + len(chunk), before=before)


def _send_chunk(
    topics: Topics,
    state: State,
    target: str,
    partitions: Iterable[int],
    chunk: list[DeadLetter],
    replayed: Replayed,
) -> None:
    if not chunk:
        return
    replayed.since = topics.end_offsets(target)
    _write(state, target, replayed)
    failure = _send(topics, target, partitions, chunk, replayed.done)
    if failure is not None:
        raise PipelineError(f"replaying {failure}; repeat the command to continue")


def replayed_sources(definition: PipelineDefinition) -> set[Source]:
    """The sources that were replayed into the pipeline's own topic."""
    return _read(State.of(definition), definition.topic).done


def _send(
    topics: Topics, target: str, partitions: Iterable[int], letters: list[DeadLetter], done: set[Source]
) -> str | None:
    """Sends letters and adds those that arrived to `done`.

    Returns the first failure as text, or None.
    """
    # One record per batch: the topic would refuse a batch because of one record.
    limit = min(int(topics.setting(target, "max.message.bytes")), 1_000_000)
    producer = topics.producer(**_PRODUCER, **{"batch.size": limit})
    failures: list[str] = []

    def told(letter: DeadLetter) -> Callable[[Any, Any], None]:
        def delivered(error: Any, _: Any) -> None:
            if error is None:
                done.add(letter.source)
            else:
                failures.append(f"{letter.source} failed: {error.str()}")

        return delivered

    known = set(partitions)
    for letter in letters:
        source = letter.source
        placed = (
            {"partition": source.partition} if source.topic == target and source.partition in known else {}
        )
        timed = {} if letter.timestamp is None else {"timestamp": letter.timestamp}
        headers = [*letter.headers, *source.headers]
        while True:
            try:
                producer.produce(
                    target, key=letter.key, value=letter.value, headers=headers, on_delivery=told(letter),
                    **placed, **timed,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                failures.append(f"{source} failed: {error.args[0].str()}")
                break
    if producer.flush(_TIMEOUT) and not failures:
        failures.append(f"{letters[-1].source} failed: the broker did not answer")
    return failures[0] if failures else None


def _arrived(topics: Topics, target: str, since: dict[int, int]) -> set[Source]:
    """The sources of the records that an unfinished replay has sent."""
    starts = topics.start_offsets(target)
    present = {partition: max(offset, starts[partition]) for partition, offset in since.items()}
    arrived: set[Source] = set()
    for message in topics.consume(target, start=present):
        if source := Source.told(texts(message.headers())):
            arrived.add(source)
    return arrived


def _read(state: State, target: str) -> Replayed:
    entry = (state.read_json(_FILE) or {}).get(target)
    if entry is None:
        return Replayed()
    done: set[Source] = set()
    for place, ranges in entry["done"].items():
        of_topic, _, topic_id = place.partition("@")
        topic, _, partition = of_topic.rpartition("-")
        for first, last in ranges:
            done.update(
                Source(topic, int(partition), offset, topic_id or None) for offset in range(first, last + 1)
            )
    since = entry["since"]
    return Replayed(
        done=done, since=None if since is None else {int(one): offset for one, offset in since.items()}
    )


def _write(state: State, target: str, replayed: Replayed) -> None:
    ranges: dict[str, list[list[int]]] = defaultdict(list)
    for topic, partition, offset, topic_id in sorted(replayed.done, key=lambda one: (one[3] or "", one)):
        of_partition = ranges[f"{topic}-{partition}" + (f"@{topic_id}" if topic_id else "")]
        if of_partition and of_partition[-1][1] == offset - 1:
            of_partition[-1][1] = offset
        else:
            of_partition.append([offset, offset])
    kept = state.read_json(_FILE) or {}
    state.write_json(_FILE, {**kept, target: {"done": ranges, "since": replayed.since}})
