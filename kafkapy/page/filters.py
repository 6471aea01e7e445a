"""Filters of records: conditions on fields of JSON, joined by `and`.

    $.customer.id == 17 and $.items[*].price > 100 and $.note ~ "urgent" and not $.deleted

    $             the value of the record, or `key`
    .name         a field; ['a name'] for one with other characters than letters, digits, _ and -
    [0] [*]       an element of a list; any of them
    == != < <= > >=   with a text, a number, true, false or null
    ~             the text contains this one; upper and lower case are the same
    no operator   the field is there and is neither null nor false

Something that is not there, or is of another type, fulfils `!=` and `not` alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.errors import UserError

_MOST_CHARS: Final = 1000
_MOST_VALUES: Final = 10_000
"""So many values of a record are looked at, at most, for one condition."""
_ROOTS: Final = ("$", "key")
_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<op>==|!=|<=|>=|<|>|~)
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<path>(?:\$|key(?![\w-]))(?:\.[\w-]+|\[\d+\]|\[\*\]|\['[^']*'\])*)
    |(?P<word>[A-Za-z]+)
    )""",
    re.VERBOSE,
)
_STEP: Final = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[(\*)\]|\['([^']*)'\]")
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}

Values = Mapping[str, Callable[[], Any]]
"""What gives the value of `$` and of `key`: it is decoded only if a filter asks for it."""


@dataclass(frozen=True)
class _Condition:
    root: str
    steps: tuple[str | int | None, ...]
    """Names, places in lists, and None for all elements."""
    operator: str
    operand: Any
    is_negated: bool

    def holds(self, value: Any) -> bool:
        found = any(_compares(each, self.operator, self.operand) for each in _reached(value, self.steps))
        return found is not self.is_negated


class Filter:
    """A filter; raises UserError if its text is none."""

    def __init__(self, text: str) -> None:
        if len(text) > _MOST_CHARS:
            raise UserError(f"the filter has more than {_MOST_CHARS:,} characters")
        self._conditions = tuple(_parsed(text))

    def matches(self, values: Values) -> bool:
        """Whether all conditions hold."""
        decoded: dict[str, Any] = {}
        for condition in self._conditions:
            if condition.root not in decoded:
                decoded[condition.root] = values[condition.root]()
            if not condition.holds(decoded[condition.root]):
                return False
        return True


def _parsed(text: str) -> Iterator[_Condition]:
    tokens = list(_tokens(text))
    while True:
        is_negated = tokens[:1] == [("word", "not")]
        if is_negated:
            del tokens[0]
        if not tokens or tokens[0][0] != "path":
            raise UserError(f"filter: expected a field such as $.name{_before(tokens)}")
        path = tokens.pop(0)[1]
        root = next(root for root in _ROOTS if path.startswith(root))
        steps = tuple(map(_step, _STEP.finditer(path.removeprefix(root))))
        operator, operand = "", None
        if tokens and tokens[0][0] == "op":
            operator = tokens.pop(0)[1]
            operand = _operand(tokens)
        # What is not there is not equal.
        is_unequal = operator == "!="
        yield _Condition(root, steps, "==" if is_unequal else operator, operand, is_negated is not is_unequal)
        if not tokens:
            return
        if tokens.pop(0) != ("word", "and"):
            raise UserError("filter: expected `and` between conditions")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise UserError(f"filter: cannot read {text[at : at + 30].strip()!r}")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


def _operand(tokens: list[tuple[str, str]]) -> Any:
    kind, text = tokens.pop(0) if tokens else ("", "")
    if kind in ("text", "number"):
        try:
            return json.loads(text)
        except ValueError:
            pass
    elif kind == "word" and text in _WORDS:
        return _WORDS[text]
    raise UserError('filter: expected "text", a number, true, false or null after the operator')


def _before(tokens: list[tuple[str, str]]) -> str:
    return f" before {tokens[0][1]!r}" if tokens else ""


def _step(found: re.Match[str]) -> str | int | None:
    name, number, _, quoted = found.groups()
    return name if name is not None else int(number) if number is not None else quoted


def _reached(value: Any, steps: tuple[str | int | None, ...]) -> Iterator[Any]:
    """The values at a path; none if it leads nowhere."""
    found = [value]
    for step in steps:
        following: list[Any] = []
        for each in found:
            if isinstance(step, str):
                if isinstance(each, dict) and step in each:
                    following.append(each[step])
            elif isinstance(each, list):
                following += each if step is None else each[step : step + 1]
        found = following[:_MOST_VALUES]
    yield from found


def _compares(value: Any, operator: str, operand: Any) -> bool:
    match operator:
        case "":
            return value is not None and value is not False
        case "==":
            # In JSON, 1 and true are different; in Python they are equal.
            return (isinstance(value, bool) is isinstance(operand, bool)) and value == operand
        case "~":
            return isinstance(value, str) and isinstance(operand, str) and operand.lower() in value.lower()
    if not _are_ordered(value, operand):
        return False
    match operator:
        case "<":
            return bool(value < operand)
        case "<=":
            return bool(value <= operand)
        case ">":
            return bool(value > operand)
        case _:
            return bool(value >= operand)


def _are_ordered(value: Any, operand: Any) -> bool:
    if isinstance(value, bool) or isinstance(operand, bool):
        return False
    return (isinstance(value, int | float) and isinstance(operand, int | float)) or (
        isinstance(value, str) and isinstance(operand, str)
    )
