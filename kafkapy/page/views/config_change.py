"""Changing a setting of a topic: what would change is shown first, and that alone is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kafkapy.commands.connection.failures import check
from kafkapy.commands.units import setting_value
from kafkapy.errors import UserError
from kafkapy.page.call import Answer, Call
from kafkapy.page.cluster.topics import Topic
from kafkapy.page.rendering import part, query
from kafkapy.page.views.configs import TOPIC, described, source_text
from kafkapy.protocol.messages.describe_configs import DescribeConfigsResourceResult
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_OF_TOPIC: Final = 1
_SET: Final = 0
_DELETE: Final = 1
_HOW: Final = {"set": "this value", "unset": "the value that it has without one of its own"}


@dataclass(frozen=True)
class _Value:
    """A value, and where it is from."""

    text: str | None
    origin: str


def form(call: Call) -> Answer:
    topic = call.sources.topics.topic(call.path["topic"])
    entry = _entry(call, topic, call.query.get("setting", ""))
    return _form(topic, entry, {"how": "set", "value": entry.value or ""})


def plan(call: Call) -> Answer:
    """The dry run: the broker checks the change."""
    topic = call.sources.topics.topic(call.path["topic"])
    entry = _entry(call, topic, call.form.get("setting", ""))
    fields = {"how": call.form.get("how", ""), "value": call.form.get("value", "").strip()}
    try:
        value = _wanted(entry, **fields)
        own = entry.value if entry.config_source == _OF_TOPIC else None
        if changes := value != own:
            _alter(call, topic, entry.name, value, is_dry_run=True)
    except UserError as error:
        return _form(topic, entry, fields, str(error))
    return Answer(
        "config_plan.html",
        {
            "title": f"Change {entry.name} of {topic.name}",
            "topic": topic,
            "setting": entry.name,
            "changes": changes,
            "before": _Value(entry.value, source_text(entry.config_source)),
            "after": _after(entry, value),
            "is_set": value is not None,
            "has_own": own is not None,
        },
    )


def do(call: Call) -> Answer:
    """Make the change of a dry run, if the setting is still as it was."""
    topic = call.sources.topics.topic(call.path["topic"])
    entry = _entry(call, topic, call.form.get("setting", ""))
    own = entry.value if entry.config_source == _OF_TOPIC else None
    if own != _sent(call, "before"):
        raise UserError(f"{entry.name} of {topic.name} has changed since the dry run: make another one")
    _alter(call, topic, entry.name, _sent(call, "after"), is_dry_run=False)
    return Answer(location=f"/topics/{part(topic.name)}/configs" + query({"name": entry.name}))


def _form(
    topic: Topic, entry: DescribeConfigsResourceResult, fields: dict[str, str], problem: str = ""
) -> Answer:
    values: dict[str, Any] = {
        "title": f"Change {entry.name} of {topic.name}",
        "topic": topic,
        "entry": entry,
        "origin": source_text(entry.config_source),
        "documentation": entry.documentation or "",
        "fields": fields,
        "how": _HOW,
        "problem": problem,
    }
    return Answer("config_change.html", values, 400 if problem else 200)


def _entry(call: Call, topic: Topic, name: str) -> DescribeConfigsResourceResult:
    for entry in described(call, TOPIC, topic.name, key=name):
        if entry.name == name and not entry.is_sensitive:
            return entry
    raise UserError(f"topics have no setting {name!r} that can be changed here")


def _wanted(entry: DescribeConfigsResourceResult, how: str, value: str) -> str | None:
    """The value of its own that the topic is to have."""
    if how not in _HOW:
        raise UserError(f"expected one of {', '.join(_HOW)}")
    return setting_value(entry.name, value) if how == "set" else None


def _after(entry: DescribeConfigsResourceResult, value: str | None) -> _Value:
    """What the setting would be; where brokers do not tell their own value, without it."""
    if value is not None:
        return _Value(value, source_text(_OF_TOPIC))
    for each in entry.synonyms:
        if each.source != _OF_TOPIC:
            name = "" if each.name == entry.name else f", as {each.name}"
            return _Value(each.value, source_text(each.source) + name)
    return _Value("the value of the brokers", "")


def _sent(call: Call, name: str) -> str | None:
    """A value in the form of a dry run; without one, the topic has none of its own."""
    return call.form.get(f"{name}_value", "") if call.form.get(f"{name}_is_set") == "1" else None


def _alter(call: Call, topic: Topic, name: str, value: str | None, *, is_dry_run: bool) -> None:
    change = AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic.name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=is_dry_run)
    answer = call.sources.wire.ask(request, IncrementalAlterConfigsResponse, is_change=not is_dry_run)
    for each in answer.responses:
        check(each.error_code, each.error_message, f"{name} of {topic.name}")
