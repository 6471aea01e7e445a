"""Rules for the names of Kerberos; interop/security compares them with Apache Kafka's own."""

from __future__ import annotations

import pytest

from kafkapy.security.sasl.kerberos.short_names import ShortNameError, ShortNames


@pytest.mark.parametrize(
    ("rules", "name", "short"),
    [
        ("DEFAULT", "alice@REALM", "alice"),
        ("DEFAULT", "alice/host@REALM", "alice"),
        ("DEFAULT", "alice", "alice"),
        ("RULE:[1:$1] DEFAULT", "alice@OTHER", "alice"),
        ("RULE:[2:$1] DEFAULT", "alice@REALM", "alice"),
        ("RULE:[1:$1.$0]", "alice@OTHER", "alice.OTHER"),
        ("RULE:[2:$2-$1]", "alice/host@REALM", "host-alice"),
        (r"RULE:[1:$1@$0](.*@OTHER)s/@.*// DEFAULT", "alice@OTHER", "alice"),
        (r"RULE:[1:$1@$0](.*@OTHER)s/@.*// DEFAULT", "alice@REALM", "alice"),
        (r"RULE:[1:$1](a.*)s/a/b/", "banana@REALM", None),
        (r"RULE:[1:$1]s/a/o/", "banana@REALM", "bonana"),
        (r"RULE:[1:$1]s/a/o/g", "banana@REALM", "bonono"),
        (r"RULE:[1:$1]s/(b)(a)/$2$1$10\$/", "banana@REALM", "abb0$nana"),
        (r"RULE:[1:$1]s/b|(x)/-$1/", "bx@REALM", "-x"),
        ("RULE:[1:$1]/L", "Alice@REALM", "alice"),
        ("RULE:[1:$1]U", "Alice@REALM", "ALICE"),
        (r"RULE:[1:$1]s/l/L/g/U", "all@REALM", "ALL"),
    ],
)
def test_the_first_rule_that_takes_a_name_counts(rules: str, name: str, short: str | None) -> None:
    names = ShortNames(rules.split(), "REALM")
    if short is None:
        with pytest.raises(ShortNameError, match="no rule"):
            names.short_name(name)
    else:
        assert names.short_name(name) == short


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "alice@OTHER"),
        ("DEFAULT", "a/b/c@REALM"),
        ("DEFAULT", "a@b@REALM"),
        ("RULE:[1:$1/x] DEFAULT", "alice@REALM"),
        ("RULE:[1:$1@$0] DEFAULT", "alice@REALM"),
        ("RULE:[1:$2] DEFAULT", "alice@REALM"),
        ("RULE:[1:$] DEFAULT", "alice@REALM"),
    ],
)
def test_a_name_without_a_simple_short_one_has_none(rules: str, name: str) -> None:
    with pytest.raises(ShortNameError):
        ShortNames(rules.split(), "REALM").short_name(name)


@pytest.mark.parametrize(
    "rule",
    [
        *("", "default", "DEFAULT ", "RULE:", "RULE:[:$1]", "RULE:[1:$1", "RULE:[1:$1]s/a/b", "RULE:[1:$1]x"),
        *("RULE:[1:$1](()", "RULE:[1:$1]s/[/b/", "RULE:[1:$1]s/a/$1/", "RULE:[1:$1]s/a/$x/", "RULE:[1:$1]LU"),
        r"RULE:[1:$1]s/a/\/",
    ],
)
def test_malformed_rules_are_refused(rule: str) -> None:
    with pytest.raises(ShortNameError):
        ShortNames([rule], "REALM")
