"""JSON is written as Protobuf messages, which are shown as they were, or refused."""

from __future__ import annotations

import json
from typing import Final

import pytest

from kafkapy.commands.decoding.protobuf import Messages
from kafkapy.registry.formats import parsed

SCHEMA: Final = """syntax = "proto2";
package shop;
import "google/protobuf/any.proto";
message Order {
  required string what = 1;
  optional double weight = 2;
  optional float size = 3;
  optional google.protobuf.Any more = 4;
  map<string, int64> counts = 5;
}
message Other { message Inner { optional bytes raw = 1; } }
"""


@pytest.fixture(scope="module")
def messages() -> Messages:
    return Messages(parsed("PROTOBUF", SCHEMA, ()).tree, [])


@pytest.mark.parametrize(
    ("name", "text", "data"),
    [
        ("", '{"what": "figs"}', b"\0\x0a\x04figs"),
        ("", '{"what": "", "size": 0.5}', b"\0\x0a\0\x1d\0\0\0\x3f"),
        ("shop.Other", "{}", b"\x02\x02"),
        ("shop.Other.Inner", '{"raw": "/w=="}', b"\x04\x02\0\x0a\x01\xff"),
    ],
)
def test_json_is_a_message_that_is_shown_as_it(messages: Messages, name: str, text: str, data: bytes) -> None:
    assert messages.encoded(text, name) == data
    assert (messages.name(data), messages.decoded(data)) == (name, json.loads(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "what"),
        ('{"what": "a", "what": "b"}', "duplicate"),
        ('{"what": 1}', "what"),
        ('{"what": "a", "size": 0.1234567891}', "0.1234567891 would be rounded"),
        ('{"what": "a", "weight": 9007199254740993}', "would be rounded"),
        ('{"what": "a", "counts": {"b": 1.5}}', "counts"),
        ('{"what": "a", "more": {"@type": "type.googleapis.com/shop.Gone", "b": 1}}', ""),
        ('{"what": "a", "more": 7}', ""),
        ("[" * 100_000, ""),
        ('{"what": ' + "1" * 5000 + "}", ""),
    ],
)
def test_what_does_not_fit_is_refused(messages: Messages, text: str, told: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as raised:
        messages.encoded(text, "")
    assert told in str(raised.value)
