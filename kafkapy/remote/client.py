"""A client of `server`: what commands and the page ask the process of `kafkapy run`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any, Final

from kafkapy.errors import UserError

SECONDS: Final = 30.0
"""How long most answers may take."""


def ask(url: str, method: str, path: str, told: object = None, *, seconds: float = SECONDS) -> Any:
    """The answer of the process that serves brokers at `url`.

    Raises:
        UserError: it refuses, and says why; or nothing answers there.
    """
    if not url.startswith("http://"):
        raise UserError(f"{url}: expected an address such as http://127.0.0.1:8642")
    data = None if told is None else json.dumps(told).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url.rstrip("/") + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise UserError(_why(error)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise UserError(f"{url} does not answer: {why}") from None


def spoken(of: str, do: str, arguments: Iterable[str]) -> dict[str, str]:
    """A fault as `server` is told it; `arguments` are NAME=VALUE.

    Raises:
        UserError: an argument is something else.
    """
    told = {"of": of, "do": do}
    for argument in arguments:
        name, separator, value = argument.partition("=")
        if not separator or name in told:
            raise UserError(f"{argument}: expected NAME=VALUE, such as times=2, and each name once")
        told[name] = value
    return told


def _why(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"{error.url} answers {error.code}: it serves no brokers of kafkapy run"
