"""The login of the client in Python at Amazon MSK."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy import Broker
from kafkapy.pipeline.client_options import librdkafka_options
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.topics import Topics
from tests.pipeline.signed_urls import REGION, environment

BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
AMAZONS = "software.amazon.msk.auth.iam"
OWN_MECHANISM = {
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{AMAZONS}.IAMLoginModule required;",
    "sasl.client.callback.handler.class": f"{AMAZONS}.IAMClientCallbackHandler",
}
TOKENS = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{BEARER};",
    "sasl.login.callback.handler.class": f"{AMAZONS}.IAMOAuthBearerLoginCallbackHandler",
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "config").write_text("[profile far]\nregion = ap-south-2\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


@pytest.fixture
def secured() -> Iterator[str]:
    """The address of a broker that lets in those who show a URL which is signed with the key."""
    line = "listener.name.sasl_plaintext.oauthbearer.sasl"
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{line}.jaas.config": f"{BEARER};",
        f"{line}.server.callback.handler.class": "tests.pipeline.signed_urls:SignedUrls",
    }
    with Broker(config=config) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("login", [OWN_MECHANISM, TOKENS])
def test_the_owner_of_a_key_comes_in(secured: str, login: dict[str, str]) -> None:
    topics = Topics(secured, {"security.protocol": "SASL_PLAINTEXT", **login})
    assert topics.create("orders")
    assert topics.end_offsets("orders") == {0: 0}


def test_who_has_another_key_does_not_come_in(secured: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    topics = Topics(secured, {"security.protocol": "SASL_PLAINTEXT", **TOKENS})
    with pytest.raises(PipelineError, match=r"cannot reach a Kafka broker at .* \(.*invalid"):
        topics.names()


@pytest.mark.parametrize(
    ("bootstrap", "options", "region"),
    [
        ("b-1.shop.a1b2.c3.kafka.us-west-2.amazonaws.com:9098", "", "us-west-2"),
        ("boot-x.c1.kafka-serverless.eu-central-1.amazonaws.com:9098", "", "eu-central-1"),
        ("127.0.0.1:9098", "", REGION),
        ("127.0.0.1:9098", ' awsProfileName="far"', "ap-south-2"),
    ],
)
def test_the_region_is_that_of_the_address_or_of_the_machine(
    bootstrap: str, options: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if options:
        monkeypatch.delenv("AWS_REGION")
    line = {"sasl.jaas.config": f"{AMAZONS}.IAMLoginModule required{options};"}
    assert librdkafka_options(bootstrap, OWN_MECHANISM | line)["oauth_cb"].args == (region,)


def test_a_region_that_nothing_names_and_a_missing_library_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(PipelineError, match=r"the region of 127\.0\.0\.1:1 is not known; set AWS_REGION"):
        Topics("127.0.0.1:1", TOKENS)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(PipelineError, match=r"pip install 'kafkapy\[msk\]'"):
        Topics("127.0.0.1:1", TOKENS)
