"""Secrets in a definition's options.

Options refer to secrets, which are read when they are used and never stored:

    ${NAME}          the environment variable NAME
    ${file:PATH}     the content of the file, without trailing line breaks

A reference may be part of a value: `... password="${ORDERS_PASSWORD}";`. A definition holds values as they
were written. `resolved` replaces the references for code that connects. The definition stored beside the
table (`kept`) has references only: a secret in the YAML itself is left out, so commands that need it cannot
use the stored definition. `redacted` removes secrets from messages of other programs, which may quote an
option.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.spark.secret_names import HIDDEN, URL_PARAMETER, has_secret, is_secret

_LEFT_OUT: Final = "${left out}"
_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE: Final = "file:"
# Spark substitutes these itself.
_SPARKS_OWN: Final = ("spark.", "env:", "system:")
# `name="value"` in a JAAS configuration
_JAAS_OPTION: Final = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;\"']+))")
# `user:password@` of a URL
_LOGIN: Final = re.compile(r"(?<=://)((?:\$\{[^{}]*\}|[^/@\s:])*)(?::((?:\$\{[^{}]*\}|[^/@\s])*))?@")
# A shorter secret would match parts of ordinary words.
_SHORTEST: Final = 4


def check_references(key: str, value: str) -> None:
    """Raises PipelineError for a `${` that begins no reference.

    `key` is the option's name in the YAML.
    """
    for found in re.finditer(r"\$\{([^{}]*)(\}?)", value):
        name, closed = found.groups()
        known = _VARIABLE.fullmatch(name) or name.removeprefix(_FILE) != name or found[0] == _LEFT_OUT
        if not closed or not (known or (key.startswith("spark.") and name.startswith(_SPARKS_OWN))):
            raise PipelineError(
                f"{key}: '${{' begins a reference: ${{NAME}} for an environment variable or ${{file:PATH}}; "
                "put a secret that contains these characters into a file"
            )


def resolved(key: str, value: str) -> str:
    """The value with its references replaced by the secrets."""

    def content(found: re.Match[str]) -> str:
        if found[0] == _LEFT_OUT:
            raise PipelineError(
                f"{key}: the table stores no secrets; name the pipeline's YAML file instead of its table, or "
                "write ${NAME} or ${file:PATH} in that file and run it once"
            )
        if found[1].startswith(_FILE):
            return _content(key, Path(found[1].removeprefix(_FILE)))
        if not _VARIABLE.fullmatch(found[1]):
            return found[0]
        try:
            return os.environ[found[1]]
        except KeyError:
            raise PipelineError(f"{key}: the environment variable {found[1]} is not set; set it") from None

    return _REFERENCE.sub(content, value)


def resolved_url(key: str, url: str) -> str:
    """The URL with its references replaced; user and password are percent-encoded."""
    quoted = _LOGIN.sub(
        lambda login: _REFERENCE.sub(lambda one: quote(resolved(key, one[0]), safe=""), login[0]), url
    )
    return resolved(key, quoted)


def _content(key: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{key}: {path} cannot be read: {error}") from None


def with_absolute_files(value: str, folder: Path | None) -> str:
    """The value with the paths of `${file:PATH}` made absolute, relative to `folder`."""
    if folder is None:
        return value

    def absolute(found: re.Match[str]) -> str:
        if not found[1].startswith(_FILE):
            return found[0]
        path = Path(found[1].removeprefix(_FILE)).expanduser()
        return f"${{{_FILE}{(folder / path).absolute()}}}"

    return _REFERENCE.sub(absolute, value)


def kept(options: Mapping[str, str]) -> dict[str, str]:
    """The options without secrets, as they are stored."""
    return {name: value if _keepable(name, value) else _LEFT_OUT for name, value in options.items()}


def kept_url(url: str) -> str:
    """The URL without a password, as it is stored."""
    found = _LOGIN.search(url)
    if found is None or not found[2] or _only_references(found[2]):
        return url
    return _LOGIN.sub(lambda login: f"{login[1]}:{_LEFT_OUT}@", url)


def hidden_url(url: str) -> str:
    """The URL without its password, for messages."""
    scheme, separator, rest = url.rpartition("://")
    return scheme + separator + re.sub(r"\S*@", f"{HIDDEN}@", rest)


def _keepable(name: str, value: str) -> bool:
    if not is_secret(name):
        return not has_secret(value) or all(map(_only_references, _in_urls(value)))
    if _only_references(value):
        return True
    login = _JAAS_OPTION.findall(value) if "jaas" in name else []
    return bool(login) and all(
        _only_references("".join(values)) for option, *values in login if is_secret(option)
    )


def _in_urls(value: str) -> set[str]:
    """The secrets in a value with URLs."""
    if not has_secret(value):
        return set()
    found = {login[2] for login in _LOGIN.finditer(value) if login[2]}
    return found | {one for name, one in URL_PARAMETER.findall(value) if is_secret(name)}


def _only_references(value: str) -> bool:
    return bool(value) and not _REFERENCE.sub("", value)


def secrets_of(options: Mapping[str, str], url: str | None = None) -> set[str]:
    """The values of secret options, and of references as far as they can be resolved."""
    found: set[str] = set()
    for name, value in options.items():
        for one in _in_urls(value):
            found |= {one, unquote(one)}
        if "${" not in value and not is_secret(name):
            continue
        try:
            whole = resolved(name, value)
        except PipelineError:
            whole = value
        found.add(whole)
        for option, *values in _JAAS_OPTION.findall(whole):
            if is_secret(option):
                found |= {"".join(values), re.sub(r"\\(.)", r"\1", "".join(values))}
        found |= _references_of(value)
    if url is not None and (login := _LOGIN.search(url)) and login[2]:
        found |= {login[2], unquote(login[2])} | _references_of(login[2])
    return {one for one in found if len(one) >= _SHORTEST}


def _references_of(value: str) -> set[str]:
    found = set()
    for reference in _REFERENCE.finditer(value):
        with contextlib.suppress(PipelineError):
            found.add(resolved("", reference[0]))
    return found


def redacted(text: str, secrets: Collection[str]) -> str:
    """The text with each secret replaced by a placeholder."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
