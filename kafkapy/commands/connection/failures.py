"""What kafka-python raises and logs, as one line for the user."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka import errors

from kafkapy.errors import UserError
from kafkapy.protocol.errors import ErrorCode


class ConnectionLog(logging.Handler):
    """Takes in kafka-python's log, and keeps the last reason of a failed connection."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and record.msg.endswith(
            ("Connection failed: %s", "Connection lost: %s")
        ):
            reason = str(record.args[-1]).removeprefix("KafkaConnectionError: ")
            # The last attempt may be cut off by the time of the command, which says nothing.
            if self.reason is None or "RequestTimedOutError" not in reason:
                self.reason = reason


_DUMP: Final = re.compile(
    r"Request '.*' failed with response .*?(?:error_message='(?P<message>[^']*)'|$)", re.DOTALL
)

_ENDED: Final = re.compile(
    r".*_ALERT_(?:(?P<certificate>\w*CERTIFICATE\w*|UNKNOWN_CA)|HANDSHAKE_FAILURE)"
    r"|EOF occurred|socket disconnected|.*(?:reset by peer|Broken pipe)"
)
"""The end of a connection with TLS, after the client's own part of the handshake or by an alert."""
_LOGIN_FAILED: Final = re.compile(r"^socket disconnected$|SaslAuthenticationFailedError")
"""Which of the two kafka-python sees is a matter of luck, at each attempt anew."""
_NO_SUCH_REQUEST: Final = re.compile(
    r"Kafka broker does not support the '(?P<api>\w+?)(?:Request)?' Kafka protocol\."
)
_REASONS: Final = {
    "DescribeQuorum": (
        ", as only KRaft has a quorum of controllers; kafkapy cluster describe names the controller"
    ),
}
"""Why a cluster may not have a request, and what to do instead."""

CONNECTION_LOG = ConnectionLog()


class _NotReachedError(Exception):
    """No connection came about in time."""


def quieten() -> None:
    """Keep kafka-python's log messages off the terminal."""
    logger = logging.getLogger("kafka")
    if CONNECTION_LOG not in logger.handlers:
        logger.addHandler(CONNECTION_LOG)
        logger.setLevel(logging.WARNING)
        logger.propagate = False


@contextlib.contextmanager
def reached(config: Mapping[str, Any]) -> Iterator[None]:
    """Explain why no broker could be reached with these settings of kafka-python.

    Brokers answer a wrong password and close the connection; kafka-python may see the close only. So it is
    with TLS 1.3 and the alert that a certificate is missing.
    """
    servers = ",".join(config["bootstrap_servers"])
    CONNECTION_LOG.reason = None
    try:
        with explained():
            try:
                yield
            except errors.KafkaTimeoutError as error:
                raise _NotReachedError from error
    except _NotReachedError:
        reason = CONNECTION_LOG.reason
        if "sasl_mechanism" in config and reason and _LOGIN_FAILED.search(reason):
            raise UserError(
                f"{servers}: the broker ended the connection: are user, password and mechanism right?"
            ) from None
        if reason and "CERTIFICATE_VERIFY_FAILED" in reason:
            raise UserError(
                f"the certificate of the broker at {servers} is not trusted ({reason}): name the authority "
                "that has signed it in ssl.truststore.location, and one of its hosts in --bootstrap-server"
            ) from None
        if reason and "ssl_context" in config and (ended := _ENDED.match(reason)):
            wants = "wants" if ended["certificate"] else "may want"
            raise UserError(
                f"the broker at {servers} ended the connection ({reason}): it {wants} a certificate of this"
                " client, of an authority that it trusts: name one in ssl.keystore.location"
            ) from None
        raise UserError(
            f"no broker answers at {servers}{f' ({reason})' if reason else ''}. Is one running there, and "
            "are --bootstrap-server and security.protocol those of its listener?"
        ) from None


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the client library and of brokers into a UserError."""
    try:
        yield
    except errors.IncompatibleBrokerVersion as error:
        raise UserError(f"the cluster cannot do this: {_what_is_missing(_text(error))}") from None
    except errors.SaslAuthenticationFailedError as error:
        raise UserError(f"the login was refused: {_text(error)}. Check user, password, mechanism") from None
    except errors.KafkaTimeoutError:
        raise UserError("the cluster did not answer in time; --timeout gives it more") from None
    except errors.BrokerResponseError as error:
        raise UserError(f"{code_name(error.errno)}: {_text(error)}") from None
    except errors.KafkaError as error:
        raise UserError(f"{type(error).__name__.removesuffix('Error')}: {_text(error)}") from None


def code_name(code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def failure_text(code: int, message: str | None = None) -> str:
    """The name of an error code, and the broker's message if it has one."""
    return f"{code_name(code)}: {message}" if message else code_name(code)


def check(code: int, message: str | None, about: str) -> None:
    """Raises UserError if the code is an error; without a message it has kafka-python's."""
    if code:
        raise UserError(f"{about}: {failure_text(code, message or errors.for_code(code).description)}")


def _what_is_missing(text: str) -> str:
    """What brokers lack that do not have a request."""
    match = _NO_SUCH_REQUEST.fullmatch(text)
    if match is None:
        return text
    api = match["api"]
    return f"its brokers do not have {api}{_REASONS.get(api, '')}"


def _text(error: Any) -> str:
    """The message of an error.

    kafka-python's may be a request and an answer as Python writes them.
    """
    text = str(error.args[0]) if error.args and error.args[0] else ""
    if dump := _DUMP.match(text):
        text = dump["message"] or ""
    return text or getattr(error, "description", "") or ""
