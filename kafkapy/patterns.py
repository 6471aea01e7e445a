"""Regular expressions from clients, with the syntax and the guarantees of RE2.

They must never be given to Python's `re`: RE2 matches in linear time, whatever the expression. Compiling one
may take seconds, and the first call loads the library: it is done in a worker thread. The library is Google's
own; Apache Kafka uses its Java port.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

MAX_MEMORY: Final = 1 << 20
"""The most bytes of a compiled expression."""

_REASONS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""The messages of Google's library, and those of RE2/J in their place."""


class PatternError(Exception):
    """An expression cannot be compiled; the message says why, in the words of Kafka's library."""


class Pattern(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str) -> Any:
        """Something true if the expression matches all of the text."""
        ...


def compile_pattern(regex: str, max_memory: int = MAX_MEMORY) -> Pattern:
    """Compile an expression to at most `max_memory` bytes; raises PatternError."""
    import re2  # takes some milliseconds, which a broker without such expressions does not need

    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_memory
    try:
        return cast("Pattern", re2.compile(regex, options))
    except re2.error as error:
        raise PatternError(_reason(error)) from None


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    text = text.partition(": ")[0]
    return _REASONS.get(text, text)
