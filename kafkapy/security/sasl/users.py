"""The users that log in by SCRAM.

Their credentials are in the metadata tree, in the nodes that hold their quotas too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kafkapy.logins import ScramCredential
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.quotas import USER, quota_entity
from kafkapy.security.sasl.scram_credential import (
    MECHANISMS,
    ScramMechanism,
    decode_credential,
)

MOST_DECODED: Final = 2_000
"""How many credentials are kept as they were decoded, some 900 bytes each."""


def credentials_of(image: MetadataImage, user: str) -> dict[ScramMechanism, ScramCredential]:
    """The credentials of a user, by mechanism."""
    configs = image.client_quotas.configs.get(quota_entity({USER: user}), {})
    found = {mechanism: _decoded(configs[text]) for text, mechanism in MECHANISMS.items() if text in configs}
    return {mechanism: credential for mechanism, credential in found.items() if credential is not None}


@lru_cache(MOST_DECODED)
def _decoded(text: str) -> ScramCredential | None:
    """The credential that a node has.

    To decode it at each login would show, by the time that takes, that there is such a user.
    """
    return decode_credential(text)


def users_with_credentials(image: MetadataImage) -> Steps[list[str]]:
    """The users that have a credential."""
    found = []
    for entity, configs in image.client_quotas.configs.items():
        yield
        match entity:
            case ((kind, str(name)),) if kind == USER and any(each in configs for each in MECHANISMS):
                found.append(name)
    return found
