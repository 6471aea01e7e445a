"""Delegation tokens, and their nodes in the tree (KIP-48, KIP-373).

    /delegation_token/tokens/<id>   {"version":3,"owner":"User%3Aalice","tokenRequester":"User%3Aadmin",
                                     "renewers":["User%3Abob"],"issueTimestamp":…,"maxTimestamp":…,
                                     "expiryTimestamp":…,"tokenId":"<22 characters>"}
    /delegation_token/token_changes/token_change_<n>   the id: a notice for brokers of Apache Kafka

Principals are URL-encoded. Before version 3 a token has no requester but its owner. The node does not have
the secret of the token, its HMAC: each broker computes it from the id. Source: Kafka's
DelegationTokenManagerZk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkapy.metadata import znodes
from kafkapy.metadata.store import Create, Node
from kafkapy.metadata.znodes import DamagedNodeError

_VERSION: Final = 3
_FIRST_VERSION_WITH_REQUESTER: Final = 3


class DelegationToken(NamedTuple):
    """One token.

    Principals are texts such as `User:alice`, times are milliseconds since the epoch.
    """

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    """When it expires at the latest."""
    expiry_timestamp: int
    """When it expires unless it is renewed."""
    version: int = 0
    """The version of its node."""

    def is_expired(self, now: int) -> bool:
        """Whether nobody may log in with it any more."""
        return self.max_timestamp < now or self.expiry_timestamp < now

    def may_renew(self, principal: str) -> bool:
        """Whether a principal may change when it expires."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether a principal may see it without any right."""
        return principal == self.requester or self.may_renew(principal)


def token_path(token_id: str) -> str:
    """The node of a token."""
    return f"{znodes.DELEGATION_TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """The content of the node of a token."""
    fields = {
        "version": _VERSION,
        "owner": znodes.sanitize(token.owner),
        "tokenRequester": znodes.sanitize(token.requester),
        "renewers": [znodes.sanitize(each) for each in token.renewers],
        "issueTimestamp": token.issue_timestamp,
        "maxTimestamp": token.max_timestamp,
        "expiryTimestamp": token.expiry_timestamp,
        "tokenId": token.id,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def read_token(token_id: str, node: Node) -> DelegationToken | None:
    """The token in a node; None if the node has no content yet.

    Raises:
        DamagedNodeError: the content is not valid.
    """
    path = token_path(token_id)
    if not node.data:
        return None
    try:
        fields = json.loads(node.data)
        version = int(fields["version"])
        if not 0 < version <= _VERSION or fields["tokenId"] != token_id:
            raise DamagedNodeError(path, node.data)
        owner = _principal(fields["owner"])
        has_requester = version >= _FIRST_VERSION_WITH_REQUESTER
        return DelegationToken(
            token_id,
            owner,
            _principal(fields["tokenRequester"]) if has_requester else owner,
            tuple(_principal(each) for each in fields["renewers"]),
            int(fields["issueTimestamp"]),
            int(fields["maxTimestamp"]),
            int(fields["expiryTimestamp"]),
            node.stat.version,
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise DamagedNodeError(path, node.data) from None


def read_tokens(tree: Mapping[str, Node]) -> dict[str, DelegationToken]:
    """All tokens of a tree, by id.

    Raises:
        DamagedNodeError: the content of a node is not valid.
    """
    found: dict[str, DelegationToken] = {}
    for path, node in tree.items():
        token_id = token_at(path)
        if token_id is not None and (token := read_token(token_id, node)) is not None:
            found[token_id] = token
    return found


def token_at(path: str) -> str | None:
    """The id of the token whose node this is; None if it is another node."""
    parent, _, name = path.rpartition("/")
    return name if parent == znodes.DELEGATION_TOKENS else None


def token_notice(token_id: str) -> Create:
    """The notice that a token has changed."""
    return Create(znodes.DELEGATION_TOKEN_CHANGE_PREFIX, token_id.encode(), sequence=True)


def _principal(text: str) -> str:
    name = znodes.desanitize(text)
    if ":" not in name:
        raise ValueError(name)
    return name
