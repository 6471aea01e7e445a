"""SCRAM credentials in Kafka's metadata records, and in the nodes of users.

Source: Kafka's ScramImage, ScramCredentialUtils.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkapy.logins import ScramCredential
from kafkapy.metadata.quotas import USER, ClientQuotas, QuotaEntity, quota_entity
from kafkapy.protocol.messages.metadata_records import UserScramCredentialRecord
from kafkapy.security.sasl.scram_credential import (
    MECHANISMS,
    ScramMechanism,
    decode_credential,
    encode_credential,
)

Credentials = Mapping[QuotaEntity, Mapping[str, str]]
"""What the nodes of users have of credentials: the text by the name of the mechanism."""


def credentials_in(nodes: ClientQuotas) -> Credentials:
    """The credentials in nodes that hold quotas, too."""
    found = {
        entity: {name: configs[name] for name in MECHANISMS if name in configs}
        for entity, configs in nodes.configs.items()
    }
    return {entity: texts for entity, texts in found.items() if texts}


def credentials_of(records: Iterable[UserScramCredentialRecord]) -> Credentials:
    """The credentials that records have, of the mechanisms that there are."""
    found: dict[QuotaEntity, dict[str, str]] = {}
    for record in records:
        if record.mechanism in list(ScramMechanism):
            credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
            texts = found.setdefault(quota_entity({USER: record.name}), {})
            texts[ScramMechanism(record.mechanism).text] = encode_credential(credential)
    return found


def with_credentials(quotas: ClientQuotas, credentials: Credentials) -> ClientQuotas:
    """The nodes of quotas, with credentials in those of their users."""
    return quotas.with_changes(
        {entity: {**quotas.configs.get(entity, {}), **texts} for entity, texts in credentials.items()}
    )


def credential_records(nodes: ClientQuotas) -> Iterator[UserScramCredentialRecord]:
    """A record for each credential; those that are malformed let nobody in, and have none."""
    for entity, texts in credentials_in(nodes).items():
        for name, text in texts.items():
            credential = decode_credential(text)
            if credential is not None:
                yield UserScramCredentialRecord(
                    name=dict(entity)[USER] or "",
                    mechanism=MECHANISMS[name],
                    salt=credential.salt,
                    stored_key=credential.stored_key,
                    server_key=credential.server_key,
                    iterations=credential.iterations,
                )
