"""A request to the page, as far as views depend on it, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkapy.commands.decoding.decoder import Decoder
from kafkapy.errors import UserError
from kafkapy.page.cluster.faults import Faults
from kafkapy.page.cluster.groups import Groups
from kafkapy.page.cluster.lag_history import LagHistory
from kafkapy.page.cluster.pipelines import Pipelines
from kafkapy.page.cluster.topics import Topics
from kafkapy.page.cluster.wire import Wire
from kafkapy.trace.pieces import Pieces

MOST_NUMBER: Final = 2**63 - 1
MOST_FORM: Final = 8 * 1024 * 1024
"""A form may have so many bytes, as browsers send it."""
SECRET: Final = "secret"
"""The field of forms with the secret."""


@dataclass(frozen=True)
class Sources:
    """What views read from."""

    wire: Wire
    topics: Topics
    groups: Groups
    history: LagHistory
    decoder: Decoder
    faults: Faults | None
    """None: the brokers are not of a `kafkapy run` that serves them."""
    trace: Pieces | None
    """What `kafkapy trace` writes; None: the page was given none."""
    pipelines: Pipelines | None
    """None: the page was given none."""
    secret: str
    """What the page's own forms send, and other sites do not know."""
    read_only: bool
    user: str | None = None
    """Who has logged in; None: nobody has to."""


@dataclass(frozen=True)
class Answer:
    """A template with its values, or where to go."""

    template: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    location: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A request; `form` is that of a POST."""

    sources: Sources
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.query.get(name, "").strip()

    def number(self, name: str, default: int, most: int = MOST_NUMBER) -> int:
        """A whole number that is not negative; raises UserError for another."""
        return whole(self.text(name), name, default, most)


def whole(text: str, name: str, default: int, most: int = MOST_NUMBER) -> int:
    """A text as a whole number that is not negative; raises UserError for another."""
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_NUMBER))):
        raise UserError(f"{name}: expected a whole number, not {text[:40]!r}")
    return min(int(text), most)
