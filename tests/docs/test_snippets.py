"""The tests that the documents show run as they stand there."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkapy import Broker
from kafkapy.assignors import GroupSpec, MemberSpec, TopicSpec
from kafkapy.broker.quotas import load_callback
from kafkapy.configs.config import BrokerConfig
from kafkapy.groups.consumer.target import load_assignors
from kafkapy.operator_class import UnusableClassError
from kafkapy.policies import (
    AlterConfigPolicy,
    ConfigRequest,
    ConfigResource,
    CreateTopicPolicy,
    PolicyViolationError,
    TopicRequest,
)
from kafkapy.policies.calls import load_policy
from kafkapy.quotas import ClientQuotaType
from kafkapy.security.acls import Operation, ResourceType

ROOT = Path(__file__).resolve().parents[2]
# A block that names its file in its first line.
_FILE = re.compile(r"^```(?:python|ini)\n# (\S+\.(?:py|ini))\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _sections(document: str) -> list[dict[str, str]]:
    """The files that each section of a document shows."""
    sections = re.split(r"^## ", (ROOT / document).read_text(), flags=re.MULTILINE)
    return [files for files in (dict(_FILE.findall(section)) for section in sections) if files]


def test_the_readmes_test_passes(tmp_path: Path) -> None:
    (files,) = _sections("README.md")
    _run(tmp_path, files)


def test_the_readmes_session_shows_what_happens(capfd: pytest.CaptureFixture[str]) -> None:
    (session,) = re.findall(r"^(>>> .*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert "127.0.0.1:9092" in session
    # The port is for who reads it; a test takes a free one.
    with Broker() as broker:
        text = session.replace("127.0.0.1:9092", broker.bootstrap_servers)
        test = doctest.DocTestParser().get_doctest(text, {}, "session", "README.md", 0)
        runner = doctest.DocTestRunner()
        runner.run(test, clear_globs=False)
        test.globs["consumer"].close()
    assert len(test.examples) == 5
    assert runner.summarize().failed == 0, capfd.readouterr().out


def test_the_tests_on_the_page_about_virtual_time_pass(tmp_path: Path) -> None:
    for number, files in enumerate(_sections("docs/virtual_time.md")):
        _run(tmp_path / str(number), files)


def test_the_test_on_the_page_about_the_registry_passes(tmp_path: Path) -> None:
    (files,) = _sections("docs/registry.md")
    _run(tmp_path, files)


def test_the_authorizer_on_its_page_lets_a_team_have_its_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/authorization.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "our_rights.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    authorizer = importlib.import_module("our_rights").WithTeams()
    authorizer.configure({"our.separator": "-"})
    allowed = [
        authorizer.authorize("User:shop", "127.0.0.1", Operation.READ, ResourceType.TOPIC, topic)
        for topic in ("shop-orders", "bank-orders", "shop.orders")
    ]
    assert allowed == [True, False, False]


def test_the_tests_on_the_page_about_testing_pass(tmp_path: Path) -> None:
    plain: dict[str, str] = {}
    for number, files in enumerate(_sections("docs/testing.md")):
        if any(name.endswith(".ini") for name in files):
            _run(tmp_path / str(number), files)
        else:
            assert not plain.keys() & files.keys()
            plain.update(files)
    _run(tmp_path / "plain", plain)


def test_the_tests_on_the_page_about_snapshots_pass(tmp_path: Path) -> None:
    for number, files in enumerate(_sections("docs/snapshots.md")):
        _run(tmp_path / str(number), files)


def test_the_assignor_on_its_page_prefers_members_in_the_rack_of_a_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/assignors.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "our_assignors.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assignor = load_assignors(["our_assignors:SameRack"])["same-rack"]
    topic = TopicSpec(b"t" * 16, "t", 4, tuple(frozenset(rack) for rack in "abca"))
    members = {rack: MemberSpec(None, rack, frozenset([topic.id])) for rack in "abz"}
    found = assignor.assign(GroupSpec(members, True), {topic.id: topic})
    assert found == {"a": {topic.id: [0, 3]}, "b": {topic.id: [1]}, "z": {topic.id: [2]}}


def test_the_answer_to_a_java_class_is_the_one_on_the_page_of_assignors() -> None:
    page = " ".join((ROOT / "docs/assignors.md").read_text().split())
    with pytest.raises(UnusableClassError) as refused:
        load_assignors(["org.example.OurAssignor"])
    assert f"`{refused.value}`" in page


def test_the_policies_on_their_page_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/policies.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "our_rules.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"our.topic.prefix": "app."}
    names = load_policy("create.topic.policy.class.name", "our_rules:TopicNames", CreateTopicPolicy, settings)
    names.validate(TopicRequest("app.orders", 1, 1, None))
    with pytest.raises(PolicyViolationError):
        names.validate(TopicRequest("orders", 1, 1, None))
    retention = load_policy(
        "alter.config.policy.class.name", "our_rules:ShortRetention", AlterConfigPolicy, settings
    )
    with pytest.raises(PolicyViolationError):
        retention.validate(ConfigRequest(ConfigResource("TOPIC", "t"), {"retention.ms": "-1"}))


def test_the_quotas_on_their_page_are_enforced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/quotas.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "our_quotas.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"client.quota.callback.class": "our_quotas:Tenants", "our.tenant.rate": "1000000"}
    callback = load_callback(BrokerConfig(settings))
    assert callback is not None
    tags = [callback.quota_metric_tags(each, "User:a", "gold-1") for each in ClientQuotaType]
    assert tags == [{"tenant": "gold"}] * len(ClientQuotaType)
    limits = [callback.quota_limit(each, tags[0]) for each in ClientQuotaType]
    assert limits == [1_000_000, None, None, None]


def _run(directory: Path, files: Mapping[str, str]) -> None:
    """Run pytest on files as their reader would: each must pass."""
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    ended = subprocess.run(
        (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "-v", directory),
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    for name in files:
        if name.endswith(".py"):
            assert re.search(rf"^{re.escape(name)}::\S+ PASSED", ended.stdout, re.MULTILINE), ended.stdout
