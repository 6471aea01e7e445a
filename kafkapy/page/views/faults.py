"""What brokers of `kafkapy run` do wrong on purpose, and how often."""

from __future__ import annotations

from typing import Any, Final

from kafkapy.errors import UserError
from kafkapy.page.call import Answer, Call, whole
from kafkapy.page.cluster.faults import Faults
from kafkapy.protocol.types import ApiKey

PATH: Final = "/faults"

_ACTIONS: Final = {
    "running": {"kill": "Kill", "stop": "Stop", "pause": "Pause"},
    "paused": {"resume": "Resume", "kill": "Kill"},
    "stopped": {"start": "Start"},
}
_OF: Final = ("connections", "disk", *(api.name.lower() for api in ApiKey))
_ALL: Final = "all"
"""In place of a broker."""
_EMPTY: Final = {"broker": "", "of": "", "do": "", "arguments": ""}


def view(call: Call) -> Answer:
    return _answer(call, _EMPTY)


def add(call: Call) -> Answer:
    fields = {name: call.form.get(name, "").strip() for name in _EMPTY}
    try:
        lines = [line.strip() for line in fields["arguments"].splitlines() if line.strip()]
        _faults(call).add(_brokers(call), fields["of"], fields["do"], lines)
    except UserError as error:
        return _answer(call, fields, str(error))
    return Answer(location=PATH)


def remove(call: Call) -> Answer:
    _faults(call).remove(_brokers(call), whole(call.form.get("number", ""), "number", 0))
    return Answer(location=PATH)


def do(call: Call) -> Answer:
    _faults(call).do(_broker(call), call.form.get("do", ""))
    return Answer(location=PATH)


def _answer(call: Call, fields: dict[str, str], problem: str = "") -> Answer:
    brokers = _faults(call).brokers()
    values: dict[str, Any] = {
        "title": "Faults",
        "brokers": [
            {"broker": broker, "actions": _actions(broker.state, len(brokers), bool(broker.cut_off_from))}
            for broker in brokers
        ],
        "all": _ALL,
        "of_all": _faults(call).of_all() if len(brokers) > 1 else [],
        "of": _OF,
        "fields": fields,
        "problem": problem,
    }
    template = "faults.html" if call.text("part") == "" else "faults_part.html"
    return Answer(template, values, 400 if problem else 200)


def _actions(state: str, count: int, is_cut: bool) -> dict[str, str]:
    actions = dict(_ACTIONS.get(state, {}))
    if count > 1:
        actions |= {"heal": "Heal"} if is_cut else {"cut_off": "Cut off"}
    return actions


def _faults(call: Call) -> Faults:
    faults = call.sources.faults
    assert faults is not None  # without any, the page has no such views
    return faults


def _brokers(call: Call) -> int | None:
    """The broker that a form names; None for all."""
    return None if call.form.get("broker") == _ALL else _broker(call)


def _broker(call: Call) -> int:
    return whole(call.form.get("broker", ""), "broker", 0)
