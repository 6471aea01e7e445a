"""A server that gives clients signed tokens, as an identity provider does."""

from __future__ import annotations

import base64
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.security.issuer import Issuer, claims

CLIENT_ID, CLIENT_SECRET, PASSPHRASE = "testuser", "secret", "passphrase"
_WITH_CREDENTIALS: Final = "client_credentials"
_WITH_ASSERTION: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_OF_A_MACHINE: Final = ("api-version", "resource", "client_id")
"""What a machine of Azure says when it asks for a token without a secret."""


class TokenEndpoint:
    """Gives tokens for a secret, for a signed assertion, or to a machine that it knows."""

    def __init__(self, folder: Path, issuer: Issuer) -> None:
        self._issuer = issuer
        self._client = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._folder = folder
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                is_known = self.headers.get("Metadata") == "true" and all(
                    name in asked for name in _OF_A_MACHINE
                )
                self._answer(is_known)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._answer(endpoint._is_known(self.headers.get("Authorization", ""), parse_qs(body)))

            def _answer(self, is_known: bool) -> None:
                path = urlsplit(self.path).path
                lifetime = {"/token": 3600, "/expired": -60}.get(path)
                if lifetime is None or not is_known:
                    self.send_error(401 if lifetime else 404)
                    return
                content = json.dumps(
                    {"access_token": endpoint._token(lifetime), "token_type": "Bearer"}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def variables(self) -> dict[str, str]:
        """Where librdkafka's tests find the addresses and the client's key."""
        address = f"http://127.0.0.1:{self._server.server_port}"
        keys = {
            "OAUTHBEARER_CLIENT_PRIVATE_KEY": NoEncryption(),
            "OAUTHBEARER_CLIENT_PRIVATE_KEY_ENCRYPTED": BestAvailableEncryption(PASSPHRASE.encode()),
        }
        files = {name: self._folder / name for name in keys}
        for name, encryption in keys.items():
            files[name].write_bytes(self._client.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return {
            "VALID_OIDC_URL": f"{address}/token",
            "INVALID_OIDC_URL": f"{address}/nothing",
            "EXPIRED_TOKEN_OIDC_URL": f"{address}/expired",
            **{name: str(path) for name, path in files.items()},
            "OAUTHBEARER_CLIENT_PRIVATE_KEY_PASSWORD": PASSPHRASE,
        }

    def _is_known(self, authorization: str, form: dict[str, list[str]]) -> bool:
        grant = form.get("grant_type")
        if grant == [_WITH_CREDENTIALS]:
            secret = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
            return authorization == f"Basic {secret}"
        return (
            grant == [_WITH_ASSERTION]
            and "invalid_scope" not in form.get("scope", [])
            and self._asserts(form)
        )

    def _asserts(self, form: dict[str, list[str]]) -> bool:
        """Whether the client has signed what it says about itself."""
        try:
            jwt.decode(
                form["assertion"][0], self._client.public_key(), ["RS256"], options={"verify_aud": False}
            )
        except jwt.InvalidTokenError:
            return False
        return True

    def _token(self, lifetime: int) -> str:
        now = int(time.time())
        return self._issuer.signed(
            claims(sub=CLIENT_ID, client_id=CLIENT_ID, iat=now - 120, exp=now + lifetime)
        )
