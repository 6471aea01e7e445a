from __future__ import annotations

import pytest

from kafkapy.security.tls.principal_mapping import PrincipalMapping, PrincipalMappingError

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("", SUBJECT),
        ("DEFAULT", SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?), *OU=(.*?),.*$/$1@$2/U", "DUKE@SERVICEUSERS"),
        ("RULE:^CN=nobody$/x/, RULE:^CN=(\\w+),.*$/$1/, DEFAULT", "Duke"),
        ("RULE:^CN=nobody$/x/,DEFAULT", SUBJECT),
        (r"RULE:^(CN=.*?),.*$/a\/$1/", "a/CN=Duke"),
    ],
)
def test_the_first_rule_that_matches_counts(rules: str, name: str) -> None:
    assert PrincipalMapping(rules).name_of(SUBJECT) == name


def test_a_client_that_no_rule_matches_has_no_name() -> None:
    with pytest.raises(PrincipalMappingError, match="no rule"):
        PrincipalMapping("RULE:^CN=nobody$/x/").name_of(SUBJECT)


@pytest.mark.parametrize("rules", ["CN", "RULE:a/b", "RULE:(/b/", "RULE:a/$1/", "DEFAULT RULE:a/b/"])
def test_malformed_rules_are_refused(rules: str) -> None:
    with pytest.raises(PrincipalMappingError):
        PrincipalMapping(rules)
