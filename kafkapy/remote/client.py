"""A client of `server`: what commands and the page ask the process of `kafkapy run`."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from kafkapy.errors import UserError

SECONDS: Final = 30.0
"""How long most answers may take."""
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without the environment's proxy: brokers are served on 127.0.0.1 only."""

_NO_BROKERS: Final = "serves no brokers of kafkapy run"


def ask(url: str, method: str, path: str, told: object = None, *, seconds: float = SECONDS) -> Any:
    """The answer of the process that serves brokers at `url`.

    Raises:
        UserError: it refuses, and says why; or nothing answers there.
    """
    if not url.startswith("http://"):
        raise UserError(f"{url}: expected an address such as http://127.0.0.1:8642")
    data = None if told is None else json.dumps(told).encode()
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url.rstrip("/") + path, data, headers, method=method)
        with _OPENER.open(request, timeout=seconds) as answer:
            found = json.load(answer, object_hook=partial(_Told, url))
    except urllib.error.HTTPError as error:
        raise UserError(_why(error)) from None
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or repr(error)
        raise UserError(f"{url} does not answer: {why}") from None
    if not isinstance(found, _Told):
        raise UserError(f"{url} {_NO_BROKERS}")
    return found


class _Told(dict[str, Any]):
    """What is told, as far as the process of `kafkapy run` has told it."""

    def __init__(self, url: str, found: dict[str, Any]) -> None:
        super().__init__(found)
        self._url = url

    def __missing__(self, key: str) -> Any:
        raise UserError(f"{self._url} {_NO_BROKERS}")


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
        return f"{error.url} answers {error.code}: it {_NO_BROKERS}"
