"""Protobuf values made from rows are the values that the rows were made from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format

from kafkapy.pipeline.formats.protobuf_decoder import Decoder
from kafkapy.pipeline.formats.protobuf_descriptors import message_class
from kafkapy.pipeline.replay.protobuf import ProtobufEncoder
from tests.pipeline.protobuf_messages import descriptor_set, order_file

ORDERS = descriptor_set(order_file())
FULL = {
    "aBool": True,
    "aInt32": -1,
    "aSint32": -2,
    "aSfixed32": -3,
    "aUint32": 2**32 - 1,
    "aFixed32": 5,
    "aInt64": str(-(2**63)),
    "aSint64": "-7",
    "aSfixed64": "8",
    "aUint64": str(2**64 - 1),
    "aFixed64": "10",
    "aFloat": 0.5,
    "aDouble": 0.1,
    "aString": "größe",
    "aBytes": "AP8=",
    "status": "PAID",
    "item": {"sku": "a", "amount": 1},
    "items": [{"sku": "b"}, {}],
    "tags": ["x", ""],
    "at": "2013-01-01T10:15:00.123456Z",
    "took": "1.500s",
    "score": "0",
    "extra": {"deep": [1, None, {"er": True}]},
    "nothing": {},
    "counts": {"one": "1", "two": "2"},
    "byId": {"7": {"sku": "seven"}},
    "cash": 0.0,
    "note": "",
}


@pytest.mark.parametrize(
    "value",
    [
        FULL,
        {},
        {"at": "1969-12-31T23:59:59.999999Z"},
        {"card": ""},
        {"status": 9},
        {"item": {}},
    ],
)
def test_a_row_becomes_the_bytes_that_it_was_decoded_from(value: dict[str, Any]) -> None:
    message = json_format.ParseDict(value, message_class(ORDERS, "shop.Order")())
    written = message.SerializeToString(deterministic=True)
    data, errors, _ = Decoder(message_class(ORDERS, "shop.Order")).decode([written])
    assert errors == [None]
    (row,) = pa.array(data).to_pylist()
    assert ProtobufEncoder(ORDERS, "shop.Order")(row) == written
