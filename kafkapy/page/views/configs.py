"""Settings of topics and brokers; those that were changed first."""

from __future__ import annotations

from typing import Any, Final

from kafkapy.commands.connection.failures import check
from kafkapy.page.call import Answer, Call
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

_TOPIC: Final = 2
_BROKER: Final = 4
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
    return _answer(call, f"Settings of {found.name}", _TOPIC, found.name, None, {"topic": found})


def broker(call: Call) -> Answer:
    number = int(call.path["broker"])
    return _answer(call, f"Settings of broker {number}", _BROKER, str(number), number, {"topic": None})


def _answer(call: Call, title: str, kind: int, name: str, node: int | None, values: dict[str, Any]) -> Answer:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer = call.sources.wire.ask(
        DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, node
    )
    wanted = call.text("name").lower()
    rows = []
    for result in answer.results:
        check(result.error_code, result.error_message, name)
        rows += [
            {
                "name": each.name,
                "value": "(sensitive)" if each.is_sensitive else each.value,
                "source": _SOURCES.get(each.config_source, str(each.config_source)),
                "is_default": each.config_source == _DEFAULT,
                "is_read_only": each.read_only,
            }
            for each in result.configs
            if wanted in each.name.lower()
        ]
    rows.sort(key=lambda row: (row["is_default"], row["name"]))
    return Answer("configs.html", {"title": title, "rows": rows, "name": call.text("name"), **values})
