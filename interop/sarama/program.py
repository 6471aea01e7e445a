"""Builds sarama's own functional tests.

They expect five brokers after a proxy that breaks connections. They are changed to use one broker, and no
proxy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interop.support.go_module import GoModule, replace_in

SARAMA: Final = GoModule(
    "sarama", "github.com/IBM/sarama", "v1.61.1", "h1:I59MWPHQUWqJNdRpsDUcbeCriog8SxjQaPfHNWxidEg="
)
_CHANGES: Final = {
    # The address is that of the broker itself.
    """\
	if err := setupToxiProxies(env, toxiproxyURL.String()); err != nil {
		return false, fmt.Errorf("failed to setup toxiproxies: %w", err)
	}
""": "\tenv.KafkaBrokerAddrs = []string{toxiproxyURL.Host}\n",
    # There is no proxy whose state could be reset.
    """\
	if err := FunctionalTestEnv.ToxiproxyClient.ResetState(); err != nil {
""": """\
	if FunctionalTestEnv.ToxiproxyClient == nil {
		return
	}
	if err := FunctionalTestEnv.ToxiproxyClient.ResetState(); err != nil {
""",
    # The broker's default, as there are no three brokers.
    "ReplicationFactor: 3,": "ReplicationFactor: -1,",
}


def built_tests() -> Path:
    """The path of a program with the tests; skips the test if it is not to be had."""
    return SARAMA.built_tests(_for_one_broker, "-tags", "functional")


def _for_one_broker(source: Path) -> None:
    replace_in(source / "functional_test.go", _CHANGES)
