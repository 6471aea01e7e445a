"""Changing a setting of a topic or a broker: what was shown first is done, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kafkapy.commands.connection.failures import check
from kafkapy.commands.units import setting_value
from kafkapy.errors import UserError
from kafkapy.page.call import Answer, Call
from kafkapy.page.cluster.topics import Topic
from kafkapy.page.rendering import part, query
from kafkapy.page.views.configs import BROKER, TOPIC, described, source_text
from kafkapy.protocol.messages.describe_configs import DescribeConfigsResourceResult
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_OF_TOPIC: Final = 1
_OF_BROKER: Final = 2
_OF_ALL_BROKERS: Final = 3
_SET: Final = 0
_DELETE: Final = 1
_HOW: Final = {"set": "this value", "unset": "the value that it has without one of its own"}
_THIS: Final = "this"
_ALL: Final = "all"
_SCOPES: Final = {_THIS: "this broker", _ALL: "all brokers that have no value of their own"}


@dataclass(frozen=True)
class _Value:
    """A value, and where it is from."""

    text: str | None
    origin: str


@dataclass(frozen=True)
class _Resource:
    """Whose setting is changed."""

    kind: int
    name: str
    """As requests have it; that of all brokers is empty."""
    title: str
    path: str
    """The address of its settings."""
    source: int
    """Of a value of its own."""
    topic: Topic | None = None
    node: int | None = None
    """The broker that is asked."""

    @classmethod
    def of(cls, call: Call, scope: str) -> _Resource:
        """That of an address; of a broker, `scope` says whether all brokers are meant."""
        if "topic" in call.path:
            topic = call.sources.topics.topic(call.path["topic"])
            path = f"/topics/{part(topic.name)}/configs"
            return cls(TOPIC, topic.name, topic.name, path, _OF_TOPIC, topic)
        number = int(call.path["broker"])
        path = f"/brokers/{number}/configs"
        if scope not in _SCOPES:
            raise UserError(f"expected one of {', '.join(_SCOPES)}")
        if scope == _ALL:
            return cls(BROKER, "", "all brokers", path, _OF_ALL_BROKERS, node=number)
        return cls(BROKER, str(number), f"broker {number}", path, _OF_BROKER, node=number)

    @property
    def scope(self) -> str:
        return _ALL if self.source == _OF_ALL_BROKERS else _THIS

    def entry(self, call: Call, name: str) -> DescribeConfigsResourceResult:
        """A setting, of all brokers as this broker knows it."""
        described_name = self.name if self.node is None else str(self.node)
        for entry in described(call, self.kind, described_name, self.node, key=name):
            if entry.name == name and not entry.is_sensitive and not entry.read_only:
                return entry
        noun = "topics have" if self.topic is not None else "brokers have"
        raise UserError(f"{noun} no setting {name!r} that can be changed here")

    def own(self, entry: DescribeConfigsResourceResult) -> str | None:
        """The value of its own, if it has one."""
        if entry.config_source == self.source:
            return entry.value
        return next((each.value for each in entry.synonyms if each.source == self.source), None)

    def before(self, entry: DescribeConfigsResourceResult) -> _Value:
        """What the setting is; of all brokers, for those that have no value of their own."""
        if self.scope == _THIS:
            return _Value(entry.value, source_text(entry.config_source))
        return self._first(entry, (_OF_BROKER,))

    def after(self, entry: DescribeConfigsResourceResult, value: str | None) -> _Value:
        """What it would be; where brokers do not tell their own value, without it."""
        if value is not None:
            return _Value(value, source_text(self.source))
        return self._first(entry, (_OF_BROKER, self.source))

    def _first(self, entry: DescribeConfigsResourceResult, but: tuple[int, ...]) -> _Value:
        for each in entry.synonyms:
            if each.source not in but:
                name = "" if each.name == entry.name else f", as {each.name}"
                return _Value(each.value, source_text(each.source) + name)
        return _Value("the value of the brokers" if self.topic is not None else "the default", "")

    def alter(self, call: Call, name: str, value: str | None, *, is_dry_run: bool) -> None:
        change = AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        resource = AlterConfigsResource(resource_type=self.kind, resource_name=self.name, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=is_dry_run)
        answer = call.sources.wire.ask(
            request, IncrementalAlterConfigsResponse, self.node, is_change=not is_dry_run
        )
        for each in answer.responses:
            check(each.error_code, each.error_message, f"{name} of {self.title}")


def form(call: Call) -> Answer:
    resource = _Resource.of(call, call.query.get("scope", _THIS))
    entry = resource.entry(call, call.query.get("setting", ""))
    return _form(resource, entry, {"how": "set", "value": resource.before(entry).text or ""})


def plan(call: Call) -> Answer:
    """The dry run: the broker checks the change."""
    resource = _Resource.of(call, call.form.get("scope", _THIS))
    entry = resource.entry(call, call.form.get("setting", ""))
    fields = {"how": call.form.get("how", ""), "value": call.form.get("value", "").strip()}
    try:
        value = _wanted(entry, **fields)
        own = resource.own(entry)
        if changes := value != own:
            resource.alter(call, entry.name, value, is_dry_run=True)
    except UserError as error:
        return _form(resource, entry, fields, str(error))
    return Answer(
        "config_plan.html",
        {
            "title": f"Change {entry.name} of {resource.title}",
            "resource": resource,
            "topic": resource.topic,
            "setting": entry.name,
            "changes": changes,
            "before": resource.before(entry),
            "after": resource.after(entry, value),
            "is_set": value is not None,
            "has_own": own is not None,
            "own": own,
        },
    )


def do(call: Call) -> Answer:
    """Make the change of a dry run, if the setting is still as it was."""
    resource = _Resource.of(call, call.form.get("scope", _THIS))
    entry = resource.entry(call, call.form.get("setting", ""))
    if resource.own(entry) != _sent(call, "before"):
        raise UserError(f"{entry.name} of {resource.title} has changed since the dry run: make another one")
    resource.alter(call, entry.name, _sent(call, "after"), is_dry_run=False)
    return Answer(location=resource.path + query({"name": entry.name}))


def _form(
    resource: _Resource, entry: DescribeConfigsResourceResult, fields: dict[str, str], problem: str = ""
) -> Answer:
    values: dict[str, Any] = {
        "title": f"Change {entry.name} of {resource.title}",
        "resource": resource,
        "topic": resource.topic,
        "entry": entry,
        "now": _Value(entry.value, source_text(entry.config_source)),
        "documentation": entry.documentation or "",
        "fields": fields,
        "how": _HOW,
        "scopes": {} if resource.topic is not None else _SCOPES,
        "problem": problem,
    }
    return Answer("config_change.html", values, 400 if problem else 200)


def _wanted(entry: DescribeConfigsResourceResult, how: str, value: str) -> str | None:
    """The value of its own that a resource is to have."""
    if how not in _HOW:
        raise UserError(f"expected one of {', '.join(_HOW)}")
    return setting_value(entry.name, value) if how == "set" else None


def _sent(call: Call, name: str) -> str | None:
    """A value in the form of a dry run; without one, the resource has none of its own."""
    return call.form.get(f"{name}_value", "") if call.form.get(f"{name}_is_set") == "1" else None
