"""Which fields of messages are secrets.

The schema marks them: what SASL exchanges, salted passwords, HMACs of delegation tokens, and values of
settings, which are secrets by the name of the setting. Records are not among them.
"""

from __future__ import annotations

from typing import Any

from kafkapy.configs.keys import broker_key, client_metrics_keys, group_keys, topic_keys
from kafkapy.protocol.schema import Field, Secret


def is_secret(field: Field, message: Any) -> bool:
    """Whether this field of `message` is a secret, as the setting of an unknown name may be."""
    if field.secret is not Secret.BY_NAME:
        return field.secret is Secret.YES
    for keys in (topic_keys(), group_keys(), client_metrics_keys()):
        if message.name in keys:
            return keys[message.name].sensitive
    return broker_key(message.name).sensitive
