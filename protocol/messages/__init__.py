"""The messages of the protocol, one module per API, imported when first asked for: a start stays quick."""

from functools import cache
from importlib import import_module

from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.types import ApiKey


def request_class(api_key: int) -> type[TopMessage]:
    """The class of an API's requests.

    Raises:
        KeyError: Kafka has no such API key.
        ModuleNotFoundError: nothing needed the class yet (`schema.NOT_GENERATED`).
    """
    return _message_class(api_key, "Request")


def response_class(api_key: int) -> type[TopMessage]:
    """The class of an API's responses; raises as `request_class` does."""
    return _message_class(api_key, "Response")


@cache
def _message_class(api_key: int, suffix: str) -> type[TopMessage]:
    name = API_SCHEMAS[api_key].name + suffix
    found: type[TopMessage] = getattr(import_module(f"{__name__}.{ApiKey(api_key).name.lower()}"), name)
    return found
