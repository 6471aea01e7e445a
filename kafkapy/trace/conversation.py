"""What is said on one connection: which answer belongs to which request.

It does no I/O.

Brokers answer in the order of requests, but a request may have no answer: a Produce with acks=0. So the
answer belongs to the first request with its correlation id, and those before it have none.

After SaslHandshake version 0, frames are bare tokens of SASL. They end at the first frame that is a request
of a known API in one of its versions: what PLAIN, SCRAM, OAUTHBEARER and GSSAPI send never looks like one.
"""

from __future__ import annotations

from collections import deque

from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.types import ApiKey
from kafkapy.trace.exchange import Exchange


class Conversation:
    """The requests of a connection that wait for their answers."""

    def __init__(self, number: int, client: str, broker: str) -> None:
        self.number, self.client, self.broker = number, client, broker
        self._waiting: deque[Exchange] = deque()
        self._sends_tokens = False

    def requested(self, frame: bytes, at: float) -> Exchange | None:
        """Take a frame of the client; returns the exchange if no answer will come."""
        if self._sends_tokens:
            if not _is_request(frame):
                return self.event("a token of SASL (after SaslHandshake version 0)", at)
            self._sends_tokens = False
        exchange = Exchange(self.number, self.client, self.broker, at, frame)
        if exchange.wants_no_answer:
            return exchange
        header = exchange.header
        if header is not None and header.api_key == ApiKey.SASL_HANDSHAKE and header.api_version == 0:
            self._sends_tokens = True
        self._waiting.append(exchange)
        return None

    def answered(self, frame: bytes, at: float) -> tuple[list[Exchange], Exchange | None]:
        """Take a frame of the broker: requests before it that had no answer, and its exchange.

        There is no exchange if nobody asked for it.
        """
        place = next((i for i, each in enumerate(self._waiting) if each.request[4:8] == frame[:4]), None)
        if place is None:
            return [], None
        passed = [self._waiting.popleft() for _ in range(place)]
        for exchange in passed:
            exchange.note = "no answer"
        exchange = self._waiting.popleft()
        exchange.answered, exchange.response = at, frame
        return passed, exchange

    def ended(self) -> list[Exchange]:
        """The requests that are left when the connection ends."""
        left = list(self._waiting)
        self._waiting.clear()
        for exchange in left:
            exchange.note = "no answer before the connection ended"
        return left

    def event(self, text: str, at: float) -> Exchange:
        """What else happened, as an exchange without frames."""
        return Exchange(self.number, self.client, self.broker, at, note=text)

    @property
    def sends_tokens(self) -> bool:
        """Whether frames may be tokens of SASL, to which nobody's correlation id belongs."""
        return self._sends_tokens


def _is_request(frame: bytes) -> bool:
    if len(frame) < 10:
        return False
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    api = API_SCHEMAS.get(key)
    return api is not None and api.first_version <= version <= api.last_version
