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
others. The file is written again whenever as many records were sent as it lists: all its writing grows with
the number of letters, not with its square.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException

from kafkapy.pipeline.dead_letters.reader import DeadLetter, dead_letter_topic, dead_letters, texts
from kafkapy.pipeline.dead_letters.source import Partition, Source, SourceSet
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state import State
from kafkapy.pipeline.topics import Topics

_FILE: Final = "dlq.json"
_LEAST: Final = 5_000  # records between two writings of the file
_TIMEOUT: Final = 60.0
_PRODUCER: Final = {
    "partitioner": "murmur2_random",  # as Java clients do, for records without a given partition
    "compression.type": "zstd",
    "message.max.bytes": 104_857_600,  # the topic's max.message.bytes decides
    "queue.buffering.max.kbytes": 131_072,  # a record of that size fits
    "queue.buffering.max.messages": 5_000,
}


@dataclass(kw_only=True)
class Replayed:
    """The entry of one target topic in dlq.json, and those of others as their text."""

    done: SourceSet = field(default_factory=SourceSet)
    since: dict[int, int] | None = None
    others: dict[str, str] = field(default_factory=dict)


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
            for source in _arrived(topics, target, replayed.since):
                replayed.done.add(source)
        sending = _Sending(topics, state, target, partitions, replayed)
        before = 0
        for letter in dead_letters(definition, topics):
            if letter.former != former:
                continue
            if where_error is not None and where_error.lower() not in letter.error.lower():
                continue
            if letter.source in replayed.done:
                before += 1
            else:
                sending.send(letter)
        sending.end()
    return ReplayResult(topic=target, replayed=sending.sent, before=before)


def replayed_sources(definition: PipelineDefinition) -> SourceSet:
    """The sources that were replayed into the pipeline's own topic."""
    return _read(State.of(definition), definition.topic).done


class _Sending:
    """Sends letters, and adds those that arrived to `done` of the target's entry."""

    def __init__(
        self, topics: Topics, state: State, target: str, partitions: Iterable[int], replayed: Replayed
    ) -> None:
        self._topics, self._state, self._target, self._replayed = topics, state, target, replayed
        self._partitions = frozenset(partitions)
        # One record per batch: the topic would refuse a batch because of one record.
        limit = min(int(topics.setting(target, "max.message.bytes")), 1_000_000)
        self._producer = topics.producer(**_PRODUCER, **{"batch.size": limit})
        self._failure: str | None = None
        self._last: Source | None = None
        self._kept_after = 0
        self.sent = 0

    def send(self, letter: DeadLetter) -> None:
        """Sends a letter, now or later.

        Raises PipelineError if one that was sent before has failed.
        """
        if self.sent == 0:
            self._keep()
        elif self.sent - self._kept_after >= max(_LEAST, len(self._replayed.done)):
            self._flush()
            self._keep()
        self._last = source = letter.source
        placed = {}
        if source.topic == self._target and source.partition in self._partitions:
            placed["partition"] = source.partition
        timed = {} if letter.timestamp is None else {"timestamp": letter.timestamp}
        headers = [*letter.headers, *source.headers]

        def delivered(error: Any, _: Any) -> None:
            if error is None:
                self._replayed.done.add(source)
            else:
                self._fail(source, error.str())

        while True:
            try:
                self._producer.produce(
                    self._target, key=letter.key, value=letter.value, headers=headers, on_delivery=delivered,
                    **placed, **timed,
                )  # fmt: skip
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                self._fail(source, error.args[0].str())
                break
        self.sent += 1

    def end(self) -> None:
        """Waits for the last letters."""
        self._flush()
        self._replayed.since = None
        _write(self._state, self._target, self._replayed)

    def _keep(self) -> None:
        self._replayed.since = self._topics.end_offsets(self._target)
        _write(self._state, self._target, self._replayed)
        self._kept_after = self.sent

    def _flush(self) -> None:
        if self._producer.flush(_TIMEOUT) and self._last is not None:
            self._fail(self._last, "the broker did not answer")
        if self._failure is not None:
            raise PipelineError(f"replaying {self._failure}; repeat the command to continue")

    def _fail(self, source: Source, why: str) -> None:
        self._failure = self._failure or f"{source} failed: {why}"


def _arrived(topics: Topics, target: str, since: dict[int, int]) -> Iterator[Source]:
    """The sources of the records that an unfinished replay has sent."""
    starts = topics.start_offsets(target)
    present = {partition: max(offset, starts[partition]) for partition, offset in since.items()}
    for message in topics.consume(target, start=present):
        if source := Source.told(texts(message.headers())):
            yield source


def _read(state: State, target: str) -> Replayed:
    entries = state.read_json(_FILE) or {}
    entry = entries.pop(target, None)
    others = {name: json.dumps(other) for name, other in entries.items()}
    if entry is None:
        return Replayed(others=others)
    done = SourceSet()
    for place, ranges in entry["done"].items():
        of_topic, _, topic_id = place.partition("@")
        topic, _, partition = of_topic.rpartition("-")
        for first, last in ranges:
            done.add_range(Partition(topic, int(partition), topic_id or None), first, last)
    since = entry["since"]
    return Replayed(
        done=done,
        since=None if since is None else {int(one): offset for one, offset in since.items()},
        others=others,
    )


def _write(state: State, target: str, replayed: Replayed) -> None:
    # As text at once: lists of the ranges would take ten times its memory.
    done = ", ".join(
        json.dumps(f"{place.topic}-{place.partition}" + (f"@{place.topic_id}" if place.topic_id else ""))
        + f": [{', '.join(f'[{first}, {last}]' for first, last in listed)}]"
        for place, listed in replayed.done.ranges()
    )
    entry = f'{{"done": {{{done}}}, "since": {json.dumps(replayed.since)}}}'
    listed = (f"{json.dumps(name)}: {text}" for name, text in {**replayed.others, target: entry}.items())
    state.write_text(_FILE, f"{{{', '.join(listed)}}}")
