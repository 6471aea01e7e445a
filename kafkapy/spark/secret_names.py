"""Tells by their names which settings of Kafka's clients, Spark and Hadoop are secrets.

Sources: the options of type PASSWORD in Kafka's SaslConfigs and SslConfigs, `spark.redaction.regex` of Spark,
the headers of Iceberg's REST catalogs, the credentials of Hadoop's S3A, ABFS and GCS connectors.

A setting with another name may have a secret in a URL: as its login, `scheme://USER:PASSWORD@host`, or as a
parameter, as the URLs of JDBC: `jdbc:postgresql://host/db?user=ann&password=PASSWORD`.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[hidden]"  # Kafka's word in place of a password

# In a syntax that Java reads too, for spark.redaction.regex.
SECRET_NAMES: Final = (
    "(?i)secret|password|passphrase|passwd|token|credential|authorization|jaas|user[.]info"
    "|(access|account|api|auth|encryption|keystore|private|shared)[._-]?key|[._]sas[._]"
)
# The location, the provider class or the lifetime of a secret, but not the secret itself.
_ABOUT_ONE: Final = (
    "(?i)(algorithm|bits|class|enabled|endpoint|file|length|location|mechanism|[.]ms|path|providers?|seconds"
    "|tokenauth|type|uri|url)$"
)


_LOGIN: Final = r"://[^/@\s:]*:[^/@\s]+@"
URL_PARAMETER: Final = re.compile(r"(?<=[?&;])([\w.-]+)=([^&;\s]*)")
# Spark compares it with values too.
REDACTED: Final = f"{SECRET_NAMES}|{_LOGIN}"


def is_secret(name: str) -> bool:
    return bool(re.search(SECRET_NAMES, name)) and not re.search(_ABOUT_ONE, name)


def has_secret(value: str) -> bool:
    """Whether a value has a URL with a password in it."""
    if "://" not in value and not value.startswith("jdbc:"):
        return False
    return bool(re.search(_LOGIN, value)) or any(is_secret(name) for name, _ in URL_PARAMETER.findall(value))
