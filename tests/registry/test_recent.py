"""What schemas that were checked may take of memory."""

from __future__ import annotations

from kafkapy.registry.formats.parsed import Parsed
from kafkapy.registry.formats.recent import Recent

PARSED = Parsed("", "", "", "", None)


def test_all_texts_together_have_a_bound() -> None:
    recent = Recent()
    keys = [("AVRO", str(number) * 300_000, ()) for number in range(5)]
    for key in keys:
        recent.put(key, PARSED)
        recent.get(keys[0])
    assert [recent.get(key) is not None for key in keys] == [True, False, False, True, True]


def test_a_schema_that_is_too_large_alone_is_not_kept() -> None:
    recent = Recent()
    small, large = ("AVRO", "x", ()), ("AVRO", "x", (("name", "y" * (1 << 20)),))
    recent.put(small, PARSED)
    recent.put(large, PARSED)
    assert recent.get(large) is None
    assert recent.get(small) is PARSED
