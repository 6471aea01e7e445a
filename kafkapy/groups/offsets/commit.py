"""The offsets that a request commits: which of them are acceptable, and their bytes.

Requests that need fewer steps are in plain_commit.py. OffsetCommit and TxnOffsetCommit share this; they have
results of their own classes, with the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from kafkapy.coordination.answer import Join
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.group import CommitCheck
from kafkapy.groups.offsets.committed_offset import (
    NO_EXPIRY,
    EncodedOffset,
    decode_offset,
    encode_offset,
)
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import TopicPartition

CHECKED_AT_ONCE: Final = 100
"""The offsets that are looked at before other requests may be served: they take a tenth of a millisecond."""

UNSET: Final = -1
"""A time that a request does not give."""

LAST_TIME: Final = 2**63 - 1
"""The last time that a record can have."""

Offsets: TypeAlias = dict[TopicPartition, EncodedOffset]


class AskedOffset(Protocol):
    """The offset of a partition in a request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class Result(Protocol):
    """The result of a partition in a response."""

    partition_index: int
    error_code: int


R = TypeVar("R", bound=Result)


def accept_partitions(check: CommitCheck, image: MetadataImage, keys: Iterable[TopicPartition]) -> None:
    """Raise KafkaError if the check of a group refuses one of the partitions."""
    for key in keys:
        check(key.topic, image.topics[key.topic].id, key.partition)


class Commit(Generic[R]):
    """The offsets of one request, and their results, until it is answered."""

    def __init__(
        self,
        result: Callable[..., R],
        now: int,
        max_metadata: int,
        keep_ms: int = UNSET,
        time_of: Callable[[Any], int] | None = None,
    ) -> None:
        """Take what is the same for all offsets of the request.

        `result` makes the result of a partition. Offsets that are kept for `keep_ms` expire then, at the last
        time that there is at the latest. `time_of` is the time at which the request says that an offset was
        committed, or UNSET; without it all are committed now.
        """
        self.offsets: Offsets = {}
        """The acceptable offsets."""
        self._results: dict[TopicPartition, R] = {}
        """The result of each of them. Where a request names a partition twice, both share it."""
        self._too_large: list[R] = []
        """The results of offsets whose metadata is too large."""
        self._result = result
        self._now = now
        self._max_metadata = max_metadata
        self._expire_timestamp = NO_EXPIRY if keep_ms == UNSET else min(now + keep_ms, LAST_TIME)
        self._time_of = time_of

    def read(self, topic: Topic | None, unknown: ErrorCode, asked: Sequence[AskedOffset]) -> Steps[list[R]]:
        """Take the acceptable offsets of a topic; return the results of all of them.

        `unknown` is the error if there is no such topic.
        """
        answers: list[R] = []
        for start in range(0, len(asked), CHECKED_AT_ONCE):
            if start:
                yield
            part = asked if len(asked) <= CHECKED_AT_ONCE else asked[start : start + CHECKED_AT_ONCE]
            if topic is None:
                result = self._result
                answers += [result(partition_index=each.partition_index, error_code=unknown) for each in part]
            else:
                self._read(topic, part, answers)
        return answers

    def _read(self, topic: Topic, asked: Iterable[AskedOffset], answers: list[R]) -> None:
        offsets, results, new, named = self.offsets, self._results, self._result, topic.named
        topic_id, now, max_metadata = topic.id, self._now, self._max_metadata
        expire_timestamp, time_of = self._expire_timestamp, self._time_of
        for each in asked:
            index, metadata = each.partition_index, each.committed_metadata or ""
            key = named.get(index) or topic.find(index)
            if key is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answers.append(new(partition_index=index, error_code=error))
                continue
            if len(metadata) > max_metadata:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                self._too_large.append(new(partition_index=index, error_code=error))
                answers.append(self._too_large[-1])
                continue
            time = UNSET if time_of is None else time_of(each)
            offsets[key] = encode_offset(
                each.committed_offset,
                each.committed_leader_epoch,
                metadata,
                now if time == UNSET else time,
                expire_timestamp,
                topic_id,
            )
            result = results.get(key)
            if result is None:
                result = results[key] = new(partition_index=index)
            answers.append(result)

    @property
    def is_void(self) -> bool:
        """Whether no offset is of a partition that exists."""
        return not self.offsets and not self._too_large

    def refuse(self, error: ErrorCode) -> Steps[None]:
        """Give all offsets an error, apart from those of partitions that do not exist."""
        for result in chain(self._results.values(), self._too_large):
            yield
            result.error_code = error

    def numbers(self) -> Steps[dict[TopicPartition, int]]:
        """The acceptable offsets, for a store that keeps nothing else."""
        numbers = {}
        for key, offset in self.offsets.items():
            yield
            numbers[key] = decode_offset(offset).offset
        return numbers

    def end(self, errors: Mapping[TopicPartition, ErrorCode]) -> Steps[None]:
        """Give each of the acceptable offsets its error, or NONE."""
        for key, error in errors.items():
            yield
            self._results[key].error_code = error

    def fail(self, keys: Iterable[TopicPartition], error: ErrorCode) -> None:
        """Give some of the acceptable offsets an error."""
        for key in keys:
            self._results[key].error_code = error

    def write(
        self,
        refusal: Callable[[Iterable[TopicPartition]], ErrorCode | None],
        write: Callable[[Mapping[TopicPartition, EncodedOffset], Done], object],
        done: Callable[[], object],
    ) -> Steps[None]:
        """Write the acceptable offsets, very many of them in parts.

        `done` is called once, when all is decided.

        `refusal` is the error with which the group refuses offsets of these partitions, in its present state.
        """
        join = Join(done)

        def ended(part: Offsets, error: ErrorCode) -> None:
            if error:
                self.fail(part, error)
            join.end()

        for number, part in enumerate(self._parts()):
            if number:
                yield
            refused = refusal(part)
            if refused is None:
                if not part:
                    break
                join.begin()
                write(part, partial(ended, part))
            elif number:
                self.fail(part, refused)
            else:
                yield from self.refuse(refused)
                break
        join.close()

    def _parts(self) -> Iterator[Offsets]:
        """The offsets to write together; one part without any if there are none."""
        if len(self.offsets) <= OFFSETS_AT_ONCE:
            yield self.offsets
            return
        left = iter(self.offsets.items())
        while part := dict(islice(left, OFFSETS_AT_ONCE)):
            yield part
