"""Contexts of Python's ssl from TLS settings, for clients and for the broker's links.

TLS 1.2 and 1.3. Clients are asked for a certificate as `ssl.client.auth` says; on a SASL_SSL listener only if
that is set for the listener, as in Kafka. Names of cipher suites are Java's.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from typing import Final

from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.security.tls.key_store import KeyStore, has_key_store, key_store, trusted_certificates
from kafkapy.security.tls.settings import TlsSettings

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_SUITES_OF_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_LEAST_KERNEL_BUFFER: Final = 64 << 10
"""The least send buffer, in bytes, with which the kernel encrypts.

With 8 and 24 KiB Linux 6.1 stopped within a record, and sent nothing more; with 32 KiB and more it did not.
"""
_ENCRYPTION_AND_HASH: Final = re.compile(r"(AES)_(128|256)_(?:(GCM|CCM|CCM_8)|CBC)(?:_(SHA\d*))?")


def server_context(config: ListenerConfig, protocol: SecurityProtocol, store: KeyStore) -> ssl.SSLContext:
    """The context for the clients of a listener.

    The broker shows them the certificate of `store`.

    Raises:
        ConfigError: its settings cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not 0 < config["socket.send.buffer.bytes"] < _LEAST_KERNEL_BUFFER:
        context.options |= getattr(ssl, "OP_ENABLE_KTLS", 0)
    _set_versions(context, config)
    _set_ciphers(context, config)
    _load_key(context, config, store)
    client_auth = config["ssl.client.auth"]
    if protocol.has_login:
        client_auth = config.own("ssl.client.auth") or "none"
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if context.verify_mode != ssl.CERT_NONE:
        _trust(context, config)
    return context


def client_context(config: TlsSettings) -> ssl.SSLContext:
    """The context of connections to other brokers or to ZooKeeper.

    The other side must have a certificate of a trusted authority for the name by which it is reached; without
    `ssl.endpoint.identification.algorithm`, for any name. The broker shows its own, if it has one.

    Raises:
        ConfigError: the settings cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions(context, config)
    _set_ciphers(context, config)
    if has_key_store(config):
        _load_key(context, config, key_store(config))
    setting = "ssl.endpoint.identification.algorithm"
    algorithm = config[setting] or ""
    if algorithm.lower() not in ("https", ""):
        raise config.wrong(setting, f"expected https, or nothing for any name, found {algorithm}")
    context.check_hostname = bool(algorithm)
    _trust(context, config)
    return context


def _set_versions(context: ssl.SSLContext, config: TlsSettings) -> None:
    setting = "ssl.enabled.protocols"
    names = config[setting]
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise config.wrong(setting, f"expected TLSv1.2 or TLSv1.3, found {', '.join(unknown) or 'none'}")
    versions = [_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _set_ciphers(context: ssl.SSLContext, config: TlsSettings) -> None:
    setting = "ssl.cipher.suites"
    names = set(config[setting])
    if not names:
        return
    newer = names & _SUITES_OF_1_3
    if newer and newer != _SUITES_OF_1_3 and context.maximum_version == ssl.TLSVersion.TLSv1_3:
        missing = ", ".join(sorted(_SUITES_OF_1_3 - newer))
        raise config.wrong(
            setting, f"the suites of TLS 1.3 cannot be chosen singly; add {missing}, or remove all three"
        )
    if not newer:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    older = sorted(names - _SUITES_OF_1_3)
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    elif context.minimum_version == ssl.TLSVersion.TLSv1_2:
        try:
            context.set_ciphers(":".join(map(_openssl_name, older)))
        except ssl.SSLError:
            raise config.wrong(setting, f"none of these is known here: {', '.join(older)}") from None
    if context.minimum_version > context.maximum_version:
        raise config.wrong(setting, "no suite is one of the protocols in ssl.enabled.protocols")


def _openssl_name(java_name: str) -> str:
    """The name of a cipher suite in OpenSSL, which is the same where it is not Java's."""
    exchange, separator, encryption = java_name.removeprefix("TLS_").partition("_WITH_")
    if not separator:
        return java_name
    encryption = _ENCRYPTION_AND_HASH.sub(
        lambda match: "-".join(filter(None, (match[1] + match[2], match[3], match[4]))), encryption
    )
    encryption = encryption.replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    parts = [] if exchange == "RSA" else [exchange.replace("_", "-")]
    return "-".join((*parts, encryption))


def _load_key(context: ssl.SSLContext, config: TlsSettings, store: KeyStore) -> None:
    with _file_of(store.pem) as path:
        try:
            # With a text, OpenSSL would ask a terminal for the password of an encrypted key.
            context.load_cert_chain(path, password=lambda: store.password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise config.wrong(
                "ssl.keystore.location",
                f"cannot use the key and its certificates; check ssl.key.password ({_reason(error)})",
            ) from None


def _trust(context: ssl.SSLContext, config: TlsSettings) -> None:
    # Java trusts each certificate of a truststore as it is. Alone, OpenSSL wants the root of each, and knows
    # only one of several that are their own authorities and have the same subject.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusted = trusted_certificates(config)
    if trusted is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:
        raise config.wrong(
            "ssl.truststore.location", f"no certificate can be read from it ({_reason(error)})"
        ) from None


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or str(error)
    return str(reason).replace("_", " ").lower()


@contextlib.contextmanager
def _file_of(text: str) -> Iterator[str]:
    """The path of a file with this text, since OpenSSL takes nothing else.

    Only this process can read it.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("kafkapy-key", os.MFD_CLOEXEC)
        try:
            os.write(fd, text.encode())
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(text.encode())
            file.flush()
            yield file.name
