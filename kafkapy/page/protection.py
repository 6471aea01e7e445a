"""What stands between the page and other sites, and other users.

A browser that shows some site can send requests to localhost. It cannot read the answers, unless that site
gives its own name the address 127.0.0.1 (DNS rebinding). So:

- Host must be a name of this machine, as long as neither a token nor a login is asked for.
- A POST must come from the page: by Origin, or by Sec-Fetch-Site, and by a secret in its form.
- No answer runs scripts or styles but the page's own, is framed, or is kept by the browser.
- With a token, each request has its hash in a cookie, which the address with `?token=` sets: a cookie cannot
  have all characters of a token.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN: Final = "token"

_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_SAME: Final = ("same-origin", "none")
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # Without a referrer, browsers would send `Origin: null` with the page's own forms.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"  # another name may become another address


class Protection:
    """An application behind the rules above.

    Args:
        names: what Host may be besides the names of localhost, without a port.
        token: asked for if it is not None.
        has_logins: the application itself asks who one is.
        port: the name of the cookie has it: cookies are not told apart by ports.
    """

    def __init__(
        self, inner: ASGIApp, *, names: Iterable[str], token: str | None, port: int, has_logins: bool = False
    ) -> None:
        self._inner = inner
        self._names = {name.lower() for name in (*_LOCAL_NAMES, *names)}
        self._token, self._has_logins = token, has_logins
        self._proof = "" if token is None else hashlib.sha256(token.encode(errors="replace")).hexdigest()
        self._cookie = f"kafkapy_page_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope)
        await (self._inner if answer is None else answer)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        is_open = self._token is None and not self._has_logins
        if is_open and _without_port(host) not in self._names:
            return PlainTextResponse(f"This page is not for the name {host!r}.", 421)
        if scope["method"] not in ("GET", "HEAD") and not _is_own(headers, host):
            return PlainTextResponse("This form was not sent by the page itself.", 403)
        return None if self._token is None else self._login(scope, headers, self._token)

    def _login(self, scope: Scope, headers: Headers, token: str) -> ASGIApp | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get(TOKEN)
        if given is not None and secrets.compare_digest(given.encode(), token.encode()):
            rest = urlencode([(name, value) for name, value in query if name != TOKEN])
            # One slash: two would begin the name of another host.
            path = "/" + scope["path"].lstrip("/")
            redirect = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            redirect.set_cookie(self._cookie, self._proof, httponly=True, samesite="lax")
            return redirect
        if secrets.compare_digest(_cookie(headers, self._cookie).encode(), self._proof.encode()):
            return None
        return PlainTextResponse(
            "This page asks for a token: open the address that was printed when it started.", 401
        )


def _is_own(headers: Headers, host: str) -> bool:
    origin = headers.get("origin")
    if origin is not None:
        return origin.lower() in (f"http://{host}", f"https://{host}")
    return headers.get("sec-fetch-site", "none") in _SAME


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isascii() and port.isdecimal() else host


def _cookie(headers: Headers, name: str) -> str:
    for pair in headers.get("cookie", "").split(";"):
        own, _, value = pair.strip().partition("=")
        if own == name:
            return value
    return ""
