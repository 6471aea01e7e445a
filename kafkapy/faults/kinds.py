"""What a fault does to a request: an error, a delay, or a broken answer."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkapy.faults.error_answers import ErrorAnswers
from kafkapy.faults.filter import Filter, TopicName
from kafkapy.network.answers import settled
from kafkapy.network.outbound import discard
from kafkapy.protocol import codec
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import RequestHeader, decode_response, response_parts
from kafkapy.protocol.types import ApiKey
from kafkapy.storage.disk.files import FileSlice

if TYPE_CHECKING:
    from kafkapy.network.connection import Connection
    from kafkapy.network.dispatcher import Endpoint

PASSED: Final = object()
"""Instead of an answer: the fault does not concern the request, or lets it pass."""

NAMED_BY_ANSWERS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_FETCH,
    }
)
"""The APIs whose requests need not name what their answers do: they ask for all, or are of a session."""

_CHUNKS_A_SECOND: Final = 20

N = TypeVar("N", int, float)


def positive(name: str, value: N) -> N:
    """A number that a test gives; raises ValueError for one that is no time to wait either."""
    if not value > 0:
        raise ValueError(f"{name}={value} is not positive")
    if value > threading.TIMEOUT_MAX:
        raise ValueError(f"{name}={value} is too large: expected {threading.TIMEOUT_MAX:.0f} at most")
    return value


@dataclass(slots=True)
class Asked:
    """A request that a fault may meet."""

    connection: Connection
    header: RequestHeader
    endpoint: Endpoint
    request: Any
    serve: Callable[[Any], Any]
    """Calls the handler with a request, as the dispatcher does; returns what that returns."""
    topic_name: TopicName

    def is_about(self, concerned: Filter) -> bool:
        """Whether the request names what the filter concerns."""
        root = schema_of(type(self.request)).root
        return concerned.concerns(self.request, root, self.header.api_version, self.topic_name)

    async def serve_in_turn(self) -> Any:
        """Have it served; return what the connection takes, maybe a later answer."""
        response = self.serve(self.request)
        while isinstance(response, Awaitable):
            response = await response
        return response

    async def answer(self) -> Any:
        """Have it served; return the response or its parts, or None."""
        return await settled(self.serve(self.request))

    async def answered_bytes(self) -> bytes:
        """Have it served; return the bytes of the answer, which are none if it has none."""
        parts = await self.answer()
        header = self.header
        if parts is None:
            return b""
        if type(parts) is not list:
            parts = response_parts(header.api_key, header.api_version, header.correlation_id, parts)
        try:
            return b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
        finally:
            discard(parts)


class Kind(Protocol):
    """What a fault does."""

    def meet(self, asked: Asked, concerned: Filter, takes: Callable[[], bool]) -> Any:
        """The answer to a request, or PASSED; `takes` decides whether one that it concerns is met."""


@dataclass(frozen=True, slots=True)
class Error:
    """An error instead of the effect, for what the filter concerns; the rest is served."""

    code: ErrorCode

    def __str__(self) -> str:
        return f"error({self.code.name!r})"

    def meet(self, asked: Asked, concerned: Filter, takes: Callable[[], bool]) -> Any:
        """The answer to a request, or PASSED."""
        header, response_class = asked.header, asked.endpoint.response_class
        answers = ErrorAnswers(self.code, header.api_version, asked.topic_name)
        if header.api_key in NAMED_BY_ANSWERS and not (concerned.is_met and answers.is_top(response_class)):
            asked.connection.keep_frame()
            return self._in_answer(asked, answers, concerned, takes)
        left, refused = answers.split(asked.request, response_class, concerned)
        if refused is None:
            if not concerned.is_met:
                return PASSED
            if takes():
                name = f"{ApiKey(header.api_key).name} v{header.api_version}"
                asked.connection.close(f"{name} has no answer for {self.code.name}")
            return None
        if not takes():
            return PASSED
        if header.api_key == ApiKey.PRODUCE and not asked.request.acks:
            asked.connection.close(f"Produce with acks=0 failed: {self.code.name}")
            return None
        if left is None:
            return refused
        asked.connection.keep_frame()
        return self._beside(asked, answers, left, refused)

    async def _beside(self, asked: Asked, answers: ErrorAnswers, left: Any, refused: Any) -> Any:
        """Serve the rest of a request, and add the errors to its answer."""
        response = _as_object(await settled(asked.serve(left)), asked.header)
        if response is not None:
            answers.join(response, refused)
        return response

    async def _in_answer(
        self, asked: Asked, answers: ErrorAnswers, concerned: Filter, takes: Callable[[], bool]
    ) -> Any:
        """Serve a request, and put the errors into its answer."""
        response = _as_object(await asked.answer(), asked.header)
        if response is not None and (places := answers.places(response, concerned)) and takes():
            answers.overwrite(places)
        return response


def _as_object(response: Any, header: RequestHeader) -> Any:
    """A response that may be encoded already.

    Encoded ahead are answers to Metadata and OffsetCommit, which have no slices of files.
    """
    if type(response) is not list:
        return response
    return decode_response(header.api_key, header.api_version, b"".join(response)[4:])[1]


class _Meets(ABC):
    """A kind that meets whole requests that name what the filter concerns."""

    __slots__ = ()

    def meet(self, asked: Asked, concerned: Filter, takes: Callable[[], bool]) -> Any:
        """The answer to a request, or PASSED."""
        if not (concerned.is_met or asked.is_about(concerned)) or not takes():
            return PASSED
        asked.connection.keep_frame()
        return self._met(asked)

    @abstractmethod
    async def _met(self, asked: Asked) -> Any:
        """The answer."""


@dataclass(frozen=True, slots=True)
class Delay(_Meets):
    """The request waits before it is served, and its connection's next ones with it."""

    seconds: float

    def __str__(self) -> str:
        return f"delay({self.seconds:g})"

    async def _met(self, asked: Asked) -> Any:
        await asyncio.sleep(self.seconds)
        return await asked.serve_in_turn()


@dataclass(frozen=True, slots=True)
class Twice(_Meets):
    """The request is served, and once more after a while, as one that was late.

    Nobody reads the second answer, and the connection may have ended by then.
    """

    seconds: float
    _late: set[asyncio.Task[bytes]] = field(default_factory=set, init=False, compare=False)
    """Those on their way, which nothing else holds."""

    def __str__(self) -> str:
        return f"twice({self.seconds:g})"

    async def _met(self, asked: Asked) -> Any:
        request, version = asked.request, asked.header.api_version
        # What serves a request may change its records in place.
        again = codec.decode(type(request), codec.encode(request, version), version)
        late = asyncio.get_running_loop().create_task(self._arrive(replace(asked, request=again)))
        self._late.add(late)
        late.add_done_callback(self._late.discard)
        return await asked.serve_in_turn()

    async def _arrive(self, asked: Asked) -> bytes:
        await asyncio.sleep(self.seconds)
        return await asked.answered_bytes()


@dataclass(frozen=True, slots=True)
class Disconnect(_Meets):
    """The connection ends, before the request is served or instead of its answer."""

    after_effect: bool

    def __str__(self) -> str:
        return f"disconnect({'after_effect=True' if self.after_effect else ''})"

    async def _met(self, asked: Asked) -> None:
        if self.after_effect:
            await asked.answered_bytes()
        asked.connection.close()


@dataclass(frozen=True, slots=True)
class NoAnswer(_Meets):
    """The request is served, but neither it nor a later one of its connection is answered."""

    def __str__(self) -> str:
        return "no_answer()"

    async def _met(self, asked: Asked) -> None:
        await asked.answered_bytes()
        asked.connection.take_frames(_ignore)


@dataclass(frozen=True, slots=True)
class TornAnswer(_Meets):
    """The request is served, half of its answer is sent, and the connection ends."""

    def __str__(self) -> str:
        return "torn_answer()"

    async def _met(self, asked: Asked) -> list[bytes]:
        data = await asked.answered_bytes()
        asked.connection.finish()  # once this and what is before it is sent
        return [data[: len(data) // 2]]


@dataclass(frozen=True, slots=True)
class SlowBytes(_Meets):
    """The request is served, and its answer is sent at so many bytes a second."""

    per_second: int

    def __str__(self) -> str:
        return f"slow_bytes({self.per_second})"

    async def _met(self, asked: Asked) -> None:
        data, connection = await asked.answered_bytes(), asked.connection
        while connection.waits_for_other_answers and not connection.closed:  # noqa: ASYNC110 - rarely
            await asyncio.sleep(1 / _CHUNKS_A_SECOND)
        size = max(1, self.per_second // _CHUNKS_A_SECOND)
        for start in range(0, len(data), size):
            if connection.closed:
                return
            connection.send([data[start : start + size]])
            await asyncio.sleep(min(size, len(data)) / self.per_second)


def _ignore(_frame: memoryview) -> None:
    """Take a request that gets no answer."""
