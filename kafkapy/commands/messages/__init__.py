"""Requests that kafka-python has no classes for.

It makes them from the JSON files of this folder. A file has the fields of one message, in the
layout of Kafka's message definitions.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.api_message import ApiMessage


def _message(name: str) -> Any:
    return type(ApiMessage)(name, (ApiMessage,), {"__module__": __name__}, load_json=__name__)


CreateDelegationTokenRequest: Final = _message("CreateDelegationTokenRequest")
CreateDelegationTokenResponse: Final = _message("CreateDelegationTokenResponse")
RenewDelegationTokenRequest: Final = _message("RenewDelegationTokenRequest")
RenewDelegationTokenResponse: Final = _message("RenewDelegationTokenResponse")
ExpireDelegationTokenRequest: Final = _message("ExpireDelegationTokenRequest")
ExpireDelegationTokenResponse: Final = _message("ExpireDelegationTokenResponse")
DescribeDelegationTokenRequest: Final = _message("DescribeDelegationTokenRequest")
DescribeDelegationTokenResponse: Final = _message("DescribeDelegationTokenResponse")
ConsumerGroupDescribeRequest: Final = _message("ConsumerGroupDescribeRequest")
ConsumerGroupDescribeResponse: Final = _message("ConsumerGroupDescribeResponse")
ShareGroupDescribeRequest: Final = _message("ShareGroupDescribeRequest")
ShareGroupDescribeResponse: Final = _message("ShareGroupDescribeResponse")
StreamsGroupDescribeRequest: Final = _message("StreamsGroupDescribeRequest")
StreamsGroupDescribeResponse: Final = _message("StreamsGroupDescribeResponse")
DescribeShareGroupOffsetsRequest: Final = _message("DescribeShareGroupOffsetsRequest")
DescribeShareGroupOffsetsResponse: Final = _message("DescribeShareGroupOffsetsResponse")
AlterShareGroupOffsetsRequest: Final = _message("AlterShareGroupOffsetsRequest")
AlterShareGroupOffsetsResponse: Final = _message("AlterShareGroupOffsetsResponse")
DeleteShareGroupOffsetsRequest: Final = _message("DeleteShareGroupOffsetsRequest")
DeleteShareGroupOffsetsResponse: Final = _message("DeleteShareGroupOffsetsResponse")
