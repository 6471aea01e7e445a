"""Delegation tokens in Kafka's metadata records, and in the metadata tree.

Neither has the HMAC of a token: a broker computes it by `delegation.token.secret.key`, which must be the same
before and after. Source: Kafka's DelegationTokenImage, DelegationTokenData.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkapy.metadata.delegation_tokens import DelegationToken
from kafkapy.protocol.messages.metadata_records import DelegationTokenRecord
from kafkapy.security.acls.nodes import why_no_node


def tokens_of(records: Iterable[DelegationTokenRecord], not_carried: list[str]) -> dict[str, DelegationToken]:
    """Return the tokens that records have, by id.

    Those that no node can have are counted in `not_carried`, in words.
    """
    found: dict[str, DelegationToken] = {}
    unknown = 0
    for record in records:
        # A record without a requester is of a metadata version before KIP-373.
        requester = record.requester or record.owner
        principals = (record.owner, requester, *record.renewers)
        if why_no_node(record.token_id) is not None or not all(":" in each for each in principals):
            unknown += 1
            continue
        found[record.token_id] = DelegationToken(
            record.token_id,
            record.owner,
            requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )
    if unknown:
        not_carried.append(f"{unknown} delegation tokens with malformed ids or principals")
    return found


def token_records(tokens: Mapping[str, DelegationToken]) -> Iterator[DelegationTokenRecord]:
    """Yield the records for these tokens."""
    for token in tokens.values():
        yield DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=token.expiry_timestamp,
            token_id=token.id,
        )
