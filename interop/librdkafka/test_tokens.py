"""librdkafka's own tests of tokens that it gets from an identity provider pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from interop.librdkafka.program import built_tests
from interop.librdkafka.run import Process, Run
from interop.librdkafka.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint
from interop.security.secure_server import FromFile
from kafkapy.configs.unsupported import TOKEN_VALIDATORS
from tests.ports import free_ports
from tests.security.issuer import Issuer

_LOGIN: Final = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": CLIENT_ID,
    "sasl.oauthbearer.client.secret": CLIENT_SECRET,
}
_LISTENERS: Final = ("PLAINTEXT", "SASL_PLAINTEXT")

WAYS: Final = {
    "client_credentials": 2,
    "JWT bearer": 14,
    "Metadata authentication": 8,
    "Sub claim": 10,
    "OAUTHBEARER/OIDC": 4,
    "aws_iam": 3,
}
"""What the names of parts of 0126 contain, and how many parts have to pass."""


@pytest.fixture(scope="module")
def processes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Process]]:
    if request.config.getoption("--against") != "kafkapy":
        pytest.skip("this is about a broker with listeners of its own")
    program = built_tests(["0126"])
    folder = tmp_path_factory.mktemp("tokens")
    issuer = Issuer(folder)
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(_LISTENERS, free_ports(2), strict=True)}
    lines = {
        "log.dirs": str(folder / "data"),
        "listeners": ",".join(f"{name}://{address}" for name, address in addresses.items()),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": "org.apache.kafka.common.security."
        "oauthbearer.OAuthBearerLoginModule required;",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": TOKEN_VALIDATORS[0],
        **issuer.settings,
    }
    with ExitStack() as stack:
        stack.enter_context(FromFile(folder, lines, addresses["PLAINTEXT"]))
        variables = stack.enter_context(TokenEndpoint(folder, issuer)).variables()
        login = {**_LOGIN, "sasl.oauthbearer.token.endpoint.url": variables["VALID_OIDC_URL"]}
        runs = {
            name: Run("0126", parts, subtests=name, settings=login, variables=variables)
            for name, parts in WAYS.items()
        }
        yield {
            name: stack.enter_context(
                Process(program, addresses["SASL_PLAINTEXT"], run, tmp_path_factory.mktemp("run"))
            )
            for name, run in runs.items()
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_librdkafkas_own_tests_of_tokens_pass(processes: dict[str, Process], name: str) -> None:
    processes[name].require_passed(600)
