"""Users who log in by the page as to the broker, with connections and rights of their own.

The broker judges name and password: whoever it lets in has a page. A session is known by a cookie with a
random number, of which only the hash is kept. It ends when its user logs out or has not used it for some
hours, or if it is the one of too many that was not used for the longest time.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kafkapy.errors import UserError
from kafkapy.page.application import read_form, static_route
from kafkapy.page.rendering import rendered

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"

_IDLE_SECONDS: Final = 8 * 3600.0
_MOST_SESSIONS: Final = 50
_AT_ONCE: Final = 4
"""So many logins are asked of the broker at once: each may take some seconds, and others wait."""
_TOKEN_BYTES: Final = 24
_MOST_CHARS: Final = 1000

Opened = tuple[ASGIApp, ExitStack]
Open = Callable[[str, str], Opened]
"""Makes the page of a user by name and password, and what ends it; raises UserError if the broker refuses."""


@dataclass
class _Session:
    page: ASGIApp
    stack: ExitStack
    used: float = field(default_factory=time.monotonic)


class Logins:
    """The pages of all users, as one application.

    Args:
        open_page: makes the page of a user.
        port: the name of the cookie has it: cookies are not told apart by ports.
        most: there are so many sessions at once.
    """

    def __init__(self, open_page: Open, port: int, *, most: int = _MOST_SESSIONS) -> None:
        self._open, self._most = open_page, most
        self._cookie = f"kafkapy_page_user_{port}"
        self._limiter: Final = CapacityLimiter(_AT_ONCE)
        self._lock: Final = threading.Lock()
        self._sessions: dict[str, _Session] = {}
        routes = [
            Route(LOGIN, self._form, methods=["GET"]),
            Route(LOGIN, self._log_in, methods=["POST"]),
            Route(LOGOUT, self._log_out, methods=["POST"]),
            static_route(),
        ]
        self._own: Final = Starlette(routes=routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in (LOGIN, LOGOUT) or scope["path"].startswith("/static/"):
            await self._own(scope, receive, send)
            return
        session = self._session(Request(scope))
        answer = RedirectResponse(LOGIN, 303) if session is None else session.page
        await answer(scope, receive, send)

    def close(self) -> None:
        """End all sessions."""
        with self._lock:
            ended, self._sessions = list(self._sessions.values()), {}
        for session in ended:
            session.stack.close()

    def _session(self, request: Request) -> _Session | None:
        with self._lock:
            session = self._sessions.get(_hash(request.cookies.get(self._cookie, "")))
            if session is not None and time.monotonic() - session.used < _IDLE_SECONDS:
                session.used = time.monotonic()
                return session
        return None

    async def _form(self, _: Request) -> Response:
        return _login_form()

    async def _log_in(self, request: Request) -> Response:
        form = await read_form(request)
        user, password = form.get("user", ""), form.get("password", "")
        if not user:
            return _login_form("give the name of a user", user, 400)
        if len(user) > _MOST_CHARS or len(password) > _MOST_CHARS:
            return _login_form(f"a name or a password has {_MOST_CHARS:,} characters at most", status=400)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        try:
            await to_thread.run_sync(self._begin, token, user, password, limiter=self._limiter)
        except UserError as error:
            return _login_form(str(error), user, 403)
        response = RedirectResponse("/topics", 303)
        response.set_cookie(self._cookie, token, httponly=True, samesite="lax")
        return response

    async def _log_out(self, request: Request) -> Response:
        key = _hash(request.cookies.get(self._cookie, ""))
        with self._lock:
            session = self._sessions.pop(key, None)
        if session is not None:
            await to_thread.run_sync(session.stack.close, limiter=self._limiter)
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(self._cookie)
        return response

    def _begin(self, token: str, user: str, password: str) -> None:
        session = _Session(*self._open(user, password))
        ended = []
        with self._lock:
            self._sessions[_hash(token)] = session
            by_use = sorted(self._sessions, key=lambda key: self._sessions[key].used)
            for number, key in enumerate(by_use):
                idle = time.monotonic() - self._sessions[key].used > _IDLE_SECONDS
                if idle or number < len(by_use) - self._most:
                    ended.append(self._sessions.pop(key))
        for each in ended:
            each.stack.close()


def _login_form(problem: str = "", user: str = "", status: int = 200) -> Response:
    text = rendered("login.html", title="Log in", problem=problem, user=user, views={}, logged_in=None)
    return HTMLResponse(text.encode(errors="replace"), status)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
