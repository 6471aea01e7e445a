"""A registry in threads of this process, for a broker of this process or any cluster.

with kafkapy.SchemaRegistry(broker.bootstrap_servers) as registry:
    client = SchemaRegistryClient({"url": registry.url})
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from kafkapy.errors import UserError

if TYPE_CHECKING:
    from kafkapy.registry.http_server import HttpServer
    from kafkapy.registry.topic import SchemasTopic

TOPIC: Final = "_schemas"
_NOT_RUNNING: Final = "the registry is not running; use it in a with statement or call start()"


class SchemaRegistry:
    """A schema registry in threads of this process; a context manager.

    Args:
        bootstrap_servers: the cluster that keeps the schemas.
        host: where it listens.
        port: 0 takes a free one.
        topic: where the schemas are kept.
        client_config: further arguments of kafka-python's clients, for TLS and logins.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        topic: str = TOPIC,
        client_config: Mapping[str, Any] | None = None,
    ) -> None:
        self._address, self._name = (host, port), topic
        self._config = {**(client_config or {}), "bootstrap_servers": bootstrap_servers.split(",")}
        self._running: tuple[HttpServer, SchemasTopic] | None = None

    @property
    def url(self) -> str:
        """The address for clients: `http://host:port`.

        Raises:
            RuntimeError: it is not running.
        """
        if self._running is None:
            raise RuntimeError(_NOT_RUNNING)
        return self._running[0].url

    def start(self) -> None:
        """Read the topic, which is created if it is missing, and serve.

        Raises:
            UserError: the cluster, its topic or the port cannot be used, or a library is missing.
        """
        if self._running is not None:
            raise RuntimeError("the registry is running already")
        try:
            from kafkapy.registry.http_server import HttpServer
            from kafkapy.registry.rest import rest
            from kafkapy.registry.topic import SchemasTopic
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("kafkapy"):
                raise
            raise UserError(
                f"{error.name} is not installed: pip install '.[registry]' in a checkout"
            ) from None
        from kafkapy.registry.registry import Registry
        from kafkapy.registry.subjects import Subjects

        subjects = Subjects()
        server = HttpServer(*self._address)
        topic = SchemasTopic(self._config, self._name, subjects.apply)
        try:
            topic.start()
        except BaseException:
            server.stop()
            raise
        server.serve(rest(Registry(subjects, topic.write, topic.settle)))
        self._running = (server, topic)

    def stop(self) -> None:
        """End what is under way, and the connections; do nothing if it is not running."""
        if self._running is not None:
            server, topic = self._running
            self._running = None
            server.stop()
            topic.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
