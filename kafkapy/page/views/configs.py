"""Settings of topics and brokers; those that were changed first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kafkapy.commands.connection.failures import check
from kafkapy.page.call import Answer, Call
from kafkapy.page.rendering import part
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)

TOPIC: Final = 2
BROKER: Final = 4
_SOURCES: Final = {
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "broker, at its start",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
_DEFAULT: Final = 5


def topic(call: Call) -> Answer:
    found = call.sources.topics.topic(call.path["topic"])
    return _answer(
        call,
        f"Settings of {found.name}",
        TOPIC,
        found.name,
        None,
        {"topic": found, "path": f"/topics/{part(found.name)}/configs"},
    )


def broker(call: Call) -> Answer:
    number = int(call.path["broker"])
    return _answer(
        call,
        f"Settings of broker {number}",
        BROKER,
        str(number),
        number,
        {"topic": None, "path": f"/brokers/{number}/configs"},
    )


def described(
    call: Call, kind: int, name: str, node: int | None = None, key: str | None = None
) -> Sequence[DescribeConfigsResourceResult]:
    """The settings of a resource, or the one that is called `key`; raises UserError."""
    keys = None if key is None else [key]
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=key is not None, include_documentation=key is not None
    )
    found: list[DescribeConfigsResourceResult] = []
    for result in call.sources.wire.ask(request, DescribeConfigsResponse, node).results:
        check(result.error_code, result.error_message, name)
        found += result.configs
    return found


def source_text(source: int) -> str:
    """Where a value of a setting is from."""
    return _SOURCES.get(source, str(source))


def _answer(call: Call, title: str, kind: int, name: str, node: int | None, values: dict[str, Any]) -> Answer:
    wanted = call.text("name").lower()
    rows = [
        {
            "name": each.name,
            "value": "(sensitive)" if each.is_sensitive else each.value,
            "source": source_text(each.config_source),
            "is_default": each.config_source == _DEFAULT,
            "is_read_only": each.read_only,
        }
        for each in described(call, kind, name, node)
        if wanted in each.name.lower()
    ]
    rows.sort(key=lambda row: (row["is_default"], row["name"]))
    return Answer("configs.html", {"title": title, "rows": rows, "name": call.text("name"), **values})
