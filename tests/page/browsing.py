"""A browser without a screen: it gets views, sends forms, and follows where they lead."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from http.client import HTTPMessage
from http.cookiejar import Cookie, CookieJar
from typing import Any
from urllib.parse import urlencode


def eventually(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


@dataclass(frozen=True)
class View:
    """What the page answered."""

    status: int
    text: str
    headers: HTTPMessage
    url: str

    @property
    def rows(self) -> list[list[str]]:
        """The cells of all rows of tables, as texts; details of messages are left out."""
        text = re.sub(r'<pre>.*?</pre>\s*<p class="soft">.*?</p>', "", self.text, flags=re.DOTALL)
        return [
            [_plain(cell) for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL)]
            for row in re.findall(r"<tr>(.*?)</tr>", text.partition("</thead>")[2] or text, re.DOTALL)
            if "<thead>" not in row
        ]

    @property
    def problem(self) -> str:
        """What the view says is wrong."""
        found = re.search(r'<p class="problem" role="alert">(.*?)</p>', self.text, re.DOTALL)
        return _plain(found[1]) if found else ""

    def link(self, text: str) -> str:
        """The address of a link."""
        found = re.search(rf'<a[^>]* href="([^"]*)"[^>]*>{re.escape(text)}</a>', self.text)
        assert found, f"there is no link {text!r} in {self.text}"
        return unescape(found[1])

    def field(self, name: str) -> str:
        """The value of a field of a form."""
        found = re.search(rf'<input[^>]* name="{name}"[^>]* value="([^"]*)"', self.text)
        found = found or re.search(
            rf'<textarea[^>]* name="{name}"[^>]*>\n(.*?)</textarea>', self.text, re.DOTALL
        )
        assert found, f"there is no field {name!r} in {self.text}"
        return unescape(found[1])


class Browser:
    """Asks one page."""

    def __init__(self, url: str) -> None:
        self.url = url.partition("/?")[0].rstrip("/")
        self._cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))

    def get(self, path: str, **headers: str) -> View:
        return self._ask(path, None, headers)

    def send(self, path: str, fields: dict[str, Any], **headers: str) -> View:
        return self._ask(path, urlencode(fields).encode(), headers)

    def cookies(self) -> list[Cookie]:
        """What the page has given."""
        return list(self._cookies)

    def secret(self) -> str:
        """The secret of the page's forms, as a browser finds it."""
        found = re.search(r'name="secret" value="([^"]+)"', self.form_text)
        assert found
        return found[1]

    form_text = ""

    def _ask(self, path: str, data: bytes | None, headers: dict[str, str]) -> View:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, named)
        try:
            answer = self._opener.open(request, timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            view = View(answer.status, answer.read().decode(), answer.headers, answer.url)
        if 'name="secret"' in view.text:
            self.form_text = view.text
        return view


def _plain(piece: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", piece)).split())
