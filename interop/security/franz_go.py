"""franz-go writes a record by each of several ways to come in, and reads it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from interop.franz_go.program import built_client
from interop.security.secure_server import SecureServer, Way
from tests.security.certificates import Certificates


def fields(server: SecureServer, certificates: Certificates, way: Way, topic: str) -> dict[str, Any]:
    """A way as the program is told of it (interop/franz_go/login.go)."""
    found: dict[str, Any] = {"Topic": topic, "Servers": server.addresses[way.listener]}
    if way.is_encrypted:
        found["Authority"] = str(way.authority(certificates))
    if way.certificate:
        found["Certificate"] = str(certificates.client)
    if way.offers is not None:
        found["Version"] = way.offers
    if way.mechanism is not None:
        found |= {"Mechanism": way.mechanism, "Username": way.username, "Password": way.password}
    if way.mechanism == "OAUTHBEARER":
        found["Password"] = way.token(server.issuer)
    return found


def logged_in(ways: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What was read by each way, or why the client did not come in, by topic."""
    program = built_client()
    lines = "".join(json.dumps(way) + "\n" for way in ways)
    run = subprocess.run(
        [program, "login"], input=lines, capture_output=True, text=True, check=False, timeout=180
    )
    assert run.returncode == 0, run.stderr
    told = [json.loads(line) for line in run.stdout.splitlines()]
    return {each["topic"]: each["read"] or each["error"] for each in told}
