"""The token of an OAUTHBEARER login, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kafkapy.errors import UserError


def token_provider(name: str, url: str | None) -> Any:
    """kafka-python's provider of the token in a `file:` URL; `name` is the property's."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    parts = urlsplit(url or "")
    if parts.scheme != "file":
        raise UserError(f"{name}: expected file:///PATH of a file with the token")
    path = Path(unquote(parts.path))

    class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
        """Reads the file at each login: it may have been renewed."""

        def token(self) -> str:
            return path.read_text(encoding="ascii").strip()

    if not path.is_file():
        raise UserError(f"{name}: there is no file {path}")
    return TokenFile()
