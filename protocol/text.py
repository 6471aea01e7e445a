"""Text that may not be UTF-8, decoded as Java decodes it: what is invalid becomes U+FFFD.

Clients send such text: a name in Latin-1, binary metadata of a committed offset. Apache Kafka takes it, since
Java's String does. Python replaces the same sequences, apart from surrogates.

Source: java.lang.String(byte[], UTF_8).
"""

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Bytes that would encode half of a character in UTF-16, invalid in UTF-8; the last may be missing."""

_INVALID = b"\xff"


def decode_as_java(data: bytes) -> str:
    """Decode UTF-8 as Java does.

    A surrogate gives one replacement character, and not one for each of its bytes.
    """
    return _SURROGATE.sub(_INVALID, data).decode(errors="replace")
