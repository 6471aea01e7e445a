from __future__ import annotations

import pytest

from kafkapy.security.sasl.jaas import JaasError, parse_jaas


def test_a_line_has_a_class_a_flag_and_options() -> None:
    module = parse_jaas('a.b.PlainLoginModule required\n  username="ad min" password=pw\n user_x=\'y"z\';')
    assert module.class_name == "a.b.PlainLoginModule"
    assert module.options == {"username": "ad min", "password": "pw", "user_x": 'y"z'}


def test_quoted_values_may_have_escapes() -> None:
    assert parse_jaas(r'A required p="a\"b\\c;=";').options == {"p": 'a"b\\c;='}


def test_comments_are_left_out() -> None:
    assert parse_jaas("A required // that = this\n /* p=q */ r=s;").options == {"r": "s"}


def test_a_module_shows_no_secrets() -> None:
    assert "hidden" not in repr(parse_jaas('A required password="hidden";'))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "A",
        "A required",
        "A wanted;",
        'A required p="x',
        "A required p;",
        "A required p=;",
        "A required; B required;",
    ],
)
def test_malformed_lines_are_refused(line: str) -> None:
    with pytest.raises(JaasError):
        parse_jaas(line)


def test_the_refusal_shows_no_secrets() -> None:
    with pytest.raises(JaasError) as raised:
        parse_jaas('A required password="hidden" user_x="hidden";  B required password="hidden')
    assert "hidden" not in str(raised.value)
