"""Sends the requests of a trace to another broker, and compares the answers.

A request is sent when each request has been answered that had been answered before it in the trace, so that
requests that waited for others do so again. All connections go to one broker.

Ids that the other broker chose anew (members, producers with their epochs, topics, fetch sessions) are put
into the requests in place of the old ones, in records' batches too. Requests with secrets are left out: a
trace has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Self

from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.records import HEADER, MAGIC, iter_headers, write_crc
from kafkapy.protocol.schema import Field, Struct
from kafkapy.protocol.types import ZERO_UUID, ApiKey
from kafkapy.trace.exchange import BUDGET, Exchange
from kafkapy.trace.facts import error_name
from kafkapy.trace.records import record_count
from kafkapy.trace.secrets import HIDDEN

ANSWER_SECONDS: Final = 60.0
"""How long a request may wait for its answer."""

_CHOSEN: Final = {
    "leader": "member_id",
    "member_id": "member_id",
    "producer_id": "producer_id",
    "session_id": "session_id",
    "topic_id": "topic_id",
    "v3_and_below_producer_id": "producer_id",
}
"""Fields with what a broker chooses, and the name under which a choice is kept."""

_OF_THE_CLUSTER: Final = frozenset(
    {
        "api_keys",
        "brokers",
        "cluster_id",
        "controller_id",
        "coordinators",
        "error_message",
        "finalized_features",
        "finalized_features_epoch",
        "host",
        "isr_nodes",
        "leader_epoch",
        "leader_id",
        "node_endpoints",
        "node_id",
        "port",
        "replica_nodes",
        "supported_features",
        "producer_epoch",
        "throttle_time_ms",
    }
)
"""Fields that are another cluster's own."""

_POSITIONS: Final = ("offset", "timestamp", "timestamp_ms", "watermark", "epoch")
"""The ends of names of fields that depend on what the log held before, or on the time."""

_SORTING: Final = ("name", "topic", "group_id", "partition_index", "partition", "index", "resource_name")


@dataclass
class Difference:
    """An exchange that went otherwise, and how: "responses.0.error_code: NONE, now 3"."""

    exchange: Exchange
    ways: list[str]


@dataclass
class Replayed:
    """How a replay went."""

    same: int = 0
    left_out: int = 0
    differences: list[Difference] = field(default_factory=list)


async def replay(exchanges: Iterable[Exchange], to: tuple[str, int]) -> Replayed:
    """Send the requests to the broker at `to`.

    Raises:
        OSError: it cannot be reached.
    """
    result, ids = Replayed(), _Ids()
    connections: dict[int, _Connection] = {}
    moments: list[tuple[float, int, Exchange]] = []
    for exchange in exchanges:
        if exchange.request:
            moments.append((exchange.sent, 1, exchange))
            if exchange.answered is not None:
                moments.append((exchange.answered, 0, exchange))
    moments.sort(key=lambda moment: moment[:2])
    answers: dict[Exchange, asyncio.Task[TopMessage | str]] = {}
    try:
        for _, is_sent, exchange in moments:
            if is_sent:
                if _is_left_out(exchange):
                    result.left_out += 1
                    continue
                if exchange.connection not in connections:
                    connections[exchange.connection] = await _Connection.open(to)
                correlation_id = connections[exchange.connection].send(exchange, ids)
                if exchange.answered is None:
                    result.same += 1
                else:
                    waiting = connections[exchange.connection].answer(exchange, correlation_id)
                    answers[exchange] = asyncio.ensure_future(waiting)
            elif exchange in answers:
                now = await answers.pop(exchange)
                ways = [now] if isinstance(now, str) else list(differences(exchange, now, ids))
                if ways:
                    result.differences.append(Difference(exchange, ways))
                else:
                    result.same += 1
    finally:
        for connection in connections.values():
            connection.close()
        for task in answers.values():
            task.cancel()
        await asyncio.gather(*answers.values(), return_exceptions=True)
    return result


def differences(exchange: Exchange, now: TopMessage, ids: _Ids) -> Iterator[str]:
    """How an answer differs from the one in the trace; learns the ids in it."""
    before = exchange.response_message
    if before is None:
        return
    yield from _differences(schema_of(type(before)).root, before, now, ids, "")


def _differences(struct: Struct, before: Any, now: Any, ids: _Ids, path: str) -> Iterator[str]:
    for each in struct.fields:
        if each.name in _OF_THE_CLUSTER or each.name.endswith(_POSITIONS):
            continue
        old, new, where = getattr(before, each.name), getattr(now, each.name), f"{path}{each.name}"
        if each.name in _CHOSEN:
            ids.learn(each.name, old, new)
            if (epoch := _epoch_of(each.name)) is not None and hasattr(before, epoch):
                ids.learn_epoch(old, getattr(before, epoch), getattr(now, epoch))
        elif each.type == "records":
            if record_count(old) != record_count(new):
                yield f"{where}: {record_count(old)} records, now {record_count(new)}"
        elif each.struct is None or old is None or new is None:
            if old != new:
                yield f"{where}: {_text(each, old)}, now {_text(each, new)}"
        elif not each.is_array:
            yield from _differences(each.struct, old, new, ids, f"{where}.")
        elif len(old) != len(new):
            yield f"{where}: {len(old)} elements, now {len(new)}"
        else:
            pairs = zip(sorted(old, key=_place), sorted(new, key=_place), strict=True)
            for place, (one, other) in enumerate(pairs):
                yield from _differences(each.struct, one, other, ids, f"{where}.{place}.")


def _epoch_of(name: str) -> str | None:
    """The field with the epoch of a producer, beside the one with its id."""
    return name.replace("producer_id", "producer_epoch") if name.endswith("producer_id") else None


def _place(element: Any) -> list[str]:
    """What elements are sorted by: brokers answer them in any order."""
    return [str(getattr(element, name, "")) for name in _SORTING]


def _text(of: Field, value: Any) -> str:
    if of.name == "error_code":
        return error_name(value)
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)


def _is_left_out(exchange: Exchange) -> bool:
    if exchange.request_message is None or HIDDEN.encode() in exchange.request:
        return True
    return exchange.header is not None and exchange.header.api_key == ApiKey.SASL_HANDSHAKE


class _Ids:
    """What the other broker chose in place of what the trace has."""

    def __init__(self) -> None:
        self._now: dict[tuple[str, Any], Any] = {}
        self._epochs: dict[tuple[int, int], int] = {}

    def learn(self, name: str, before: Any, now: Any) -> None:
        """Keep what a field is now."""
        kind = _CHOSEN[name]
        # A producer's first id is 0, and an answer with an error has -1.
        nothing = (-1,) if kind == "producer_id" else ("", 0, ZERO_UUID, None)
        if before not in nothing and now not in nothing:
            self._now[kind, before] = now

    def learn_epoch(self, producer_id: int, before: int, now: int) -> None:
        """Keep what an epoch of a producer of the trace is now."""
        if producer_id >= 0 and before >= 0 and now >= 0:
            self._epochs[producer_id, before] = now

    def put(self, message: TopMessage) -> None:
        """Put what is known into a request."""
        self._put(schema_of(type(message)).root, message)

    def _put(self, struct: Struct, message: Any) -> None:
        for each in struct.fields:
            value = getattr(message, each.name)
            if each.name in _CHOSEN:
                if (epoch := _epoch_of(each.name)) is not None and hasattr(message, epoch):
                    before = getattr(message, epoch)
                    setattr(message, epoch, self._epochs.get((value, before), before))
                setattr(message, each.name, self._now.get((_CHOSEN[each.name], value), value))
            elif each.type == "records" and value is not None:
                setattr(message, each.name, self._in_batches(value))
            elif each.struct is not None and value is not None:
                for element in value if each.is_array else [value]:
                    self._put(each.struct, element)

    def _in_batches(self, records: bytes | memoryview) -> bytes | memoryview:
        changed = memoryview(bytearray(records))
        for position, header in iter_headers(records):
            producer_id = self._now.get(("producer_id", header.producer_id))
            if header.magic == MAGIC and producer_id is not None:
                before = header.producer_id, header.producer_epoch
                epoch = self._epochs.get(before, header.producer_epoch)
                anew = header._replace(producer_id=producer_id, producer_epoch=epoch)
                HEADER.pack_into(changed, position, *anew)
                write_crc(changed[position : position + header.size])
        return changed


class _Connection:
    """A connection to the other broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._correlation_ids = count()
        self._reading = asyncio.Lock()

    @classmethod
    async def open(cls, to: tuple[str, int]) -> Self:
        """Connect; raises OSError."""
        return cls(*await asyncio.open_connection(*to))

    def send(self, exchange: Exchange, ids: _Ids) -> int:
        """Send a request; returns its correlation id."""
        header, message = exchange.header, exchange.request_message
        assert header is not None
        assert message is not None
        ids.put(message)
        correlation_id = next(self._correlation_ids)
        self._writer.write(encode_request(message, header.api_version, correlation_id, header.client_id))
        return correlation_id

    async def answer(self, exchange: Exchange, correlation_id: int) -> TopMessage | str:
        """The answer to a request, or why there is none."""
        header = exchange.header
        assert header is not None
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._reading:
                frame = b""
                # Those in between belong to requests that had no answer in the trace.
                while int.from_bytes(frame[:4], "big") != correlation_id or not frame:
                    size = int.from_bytes(await self._reader.readexactly(4), "big")
                    frame = await self._reader.readexactly(size)
            now = Exchange(0, "", "", 0.0, exchange.request, 0.0, frame)
            _, message = decode_response(header.api_key, now.response_version, frame, budget=BUDGET)
        except TimeoutError:
            return f"no answer within {ANSWER_SECONDS:.0f} s"
        except (OSError, asyncio.IncompleteReadError):
            return "the connection ended"
        except DecodeError as error:
            return str(error)
        return message

    def close(self) -> None:
        self._writer.close()
