"""Faults as data: what is told by names and values is the call that Python makes.

    {"of": "produce", "topic": "orders", "do": "error", "code": "NOT_LEADER_OR_FOLLOWER", "times": 2}

`of` is a method of `Faults`, `do` a method of what it returns, and the rest are their arguments. So there is
nothing to say here that Python cannot say, and no name is listed twice.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from kafkapy.faults.fault import Fault, HowOften
from kafkapy.faults.faults import Faults, near

_OFTEN: Final = get_type_hints(HowOften)
_WORDS: Final = {"true": True, "false": False}
_NUMBERS: Final = {int: "a whole number", float: "a number"}


def switch_on(faults: Faults[Fault], told: Mapping[str, object]) -> Fault:
    """Switch on the fault that is told.

    Raises:
        ValueError: something is wrong or missing, which the message names.
    """
    left = dict(told)
    of = _method(faults, left.pop("of", None), "of")
    concerned = of(**_arguments(of, left, needed=False))
    do = _method(concerned, left.pop("do", None), "do")
    given = _arguments(do, left, needed=True)
    if left:
        name = next(iter(left))
        known = [*_parameters(of), *_parameters(do)]
        raise ValueError(f"{told['of']} and {told['do']} take no {name}{near(name, known)}")
    fault: Fault = do(**given)
    return fault


def described(fault: Fault) -> dict[str, object]:
    """What is shown of a fault."""
    return {"number": fault.number, "fault": str(fault), "hits": fault.hits, "asked": fault.asked}


def _method(owner: object, name: object, key: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError(f"{key} is missing: expected {_some(owner)}")
    if name not in _names(owner):
        raise ValueError(f"{key}={name}: expected {_some(owner)}{near(name, _names(owner))}")
    method: Callable[..., Any] = getattr(owner, name)
    return method


def _names(owner: object) -> list[str]:
    """What `of` or `do` may be."""
    if isinstance(owner, Faults):
        return owner.names
    found = vars(type(owner)).items()
    return [name for name, each in found if inspect.isfunction(each) and not name.startswith("_")]


def _some(owner: object) -> str:
    names = _names(owner)
    return (
        ", ".join(names) if len(names) < 10 else f"one of {len(names)}, such as produce, connections or disk"
    )


def _parameters(call: Callable[..., Any]) -> dict[str, Any]:
    """The names of a call's arguments, and their types."""
    hints = get_type_hints(call)
    hints.pop("return", None)
    if hints.pop("how_often", None) is not None:
        hints |= _OFTEN
    return hints


def _arguments(call: Callable[..., Any], left: dict[str, object], *, needed: bool) -> dict[str, object]:
    """Take a call's arguments from what was told."""
    parameters = _parameters(call)
    given = {
        name: _value(name, left.pop(name), parameters[name]) for name in list(left) if name in parameters
    }
    if needed:
        for name, parameter in inspect.signature(call).parameters.items():
            is_optional = parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD
            if name not in given and not is_optional:
                raise ValueError(f"{name} is missing")
    return given


def _value(name: str, value: object, wanted: Any) -> object:
    """A value of the type that is wanted; numbers may be texts, as they are on a command line."""
    if get_origin(wanted) in (Union, types.UnionType):
        wanted = next(each for each in get_args(wanted) if each is not type(None))
    if get_origin(wanted) is Literal:
        return value  # the call says what it expects
    if wanted is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value in _WORDS:
            return _WORDS[value]
        raise ValueError(f"{name}={value}: expected true or false")
    if wanted in _NUMBERS:
        try:
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise ValueError
            number = wanted(value)
            if isinstance(value, float) and number != value:
                raise ValueError
        except (ValueError, OverflowError):
            raise ValueError(f"{name}={value}: expected {_NUMBERS[wanted]}") from None
        return typing.cast("object", number)
    if not isinstance(value, str):
        raise ValueError(f"{name}={value}: expected a text")
    return value
