"""The public keys of those who sign tokens (JWKS), from a file or an https address.

They are read again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names a key that is
not among them, since keys are exchanged without notice. Tokens with invented names of keys cause one read in
`sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms` at most. Source: Kafka's RefreshingHttpsJwks.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from jwt import PyJWK, PyJWKSet
from jwt.exceptions import PyJWTError

MOST_BYTES: Final = 1 << 20
_SECONDS: Final = 10.0
"""How long an answer may take."""

logger = logging.getLogger(__name__)


class KeysError(Exception):
    """The keys cannot be read; the message says why."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from the address that the operator names, from no other."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


class JsonWebKeys:
    """The keys at one address, which threads use."""

    def __init__(self, url: str, refresh_seconds: float, backoff_seconds: float) -> None:
        """`url` begins with file: or https:."""
        self._url = url
        self._refresh_seconds = refresh_seconds
        self._backoff_seconds = backoff_seconds
        self._lock = threading.Lock()
        self._keys: dict[str | None, PyJWK] = {}
        self._read_at: float | None = None
        """The end of the last try."""

    def read(self) -> None:
        """Read the keys.

        Raises:
            KeysError: they cannot be read; those that are known stay.
        """
        try:
            found = PyJWKSet.from_dict(_checked(json.loads(self._content())))
        except (OSError, ValueError, HTTPException, RecursionError, PyJWTError) as error:
            raise KeysError(f"the keys at {self._url} cannot be read: {error}") from None
        finally:
            self._read_at = time.monotonic()
        self._keys = {key.key_id: key for key in found.keys}

    def find(self, key_id: str | None) -> PyJWK | None:
        """The key of this id, or the only one if a token names none.

        A thread that needs a key which is not known waits while another one reads.
        """
        known = self._known(key_id)
        if self._is_due(known) and self._lock.acquire(blocking=known is None):
            try:
                if self._is_due(self._known(key_id)):
                    self.read()
            except KeysError as error:
                logger.error("Logins by OAUTHBEARER: %s", error)
            finally:
                self._lock.release()
            return self._known(key_id)
        return known

    def _known(self, key_id: str | None) -> PyJWK | None:
        keys = self._keys
        if key_id is None and len(keys) == 1:
            return next(iter(keys.values()))
        return keys.get(key_id)

    def _is_due(self, known: PyJWK | None) -> bool:
        """Whether the keys must be read before `known` is what they have."""
        if self._read_at is None:
            return True
        age = time.monotonic() - self._read_at
        return age >= (self._refresh_seconds if known is not None else self._backoff_seconds)

    def _content(self) -> bytes:
        parts = urlsplit(self._url)
        if parts.scheme == "file":
            return Path(unquote(parts.path)).read_bytes()
        opener = urllib.request.build_opener(_NoRedirects)
        with opener.open(self._url, timeout=_SECONDS) as answer:
            content: bytes = answer.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"they have more than {MOST_BYTES} bytes")
        return content


def _checked(content: Any) -> dict[str, Any]:
    """An object with a list of objects under "keys"; raises ValueError for anything else."""
    keys = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise ValueError('expected an object with a list of "keys"')
    return {"keys": keys}
