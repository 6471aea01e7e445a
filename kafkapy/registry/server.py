"""A registry in threads of this process, for a broker of this process or any cluster.

with kafkapy.SchemaRegistry(broker.bootstrap_servers) as registry:
    client = SchemaRegistryClient({"url": registry.url})
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from kafkapy.serving.served import Served

TOPIC: Final = "_schemas"


class SchemaRegistry(Served):
    """A schema registry in threads of this process; a context manager.

    Args:
        bootstrap_servers: the cluster that keeps the schemas.
        host: where it listens.
        port: 0 takes a free one.
        topic: where the schemas are kept.
        client_config: further arguments of kafka-python's clients, for TLS and logins.
    """

    noun = "registry"
    extra = "registry"

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

    def _start(self, stack: ExitStack) -> str:
        """Read the topic, which is created if it is missing, and serve."""
        from kafkapy.registry.registry import Registry
        from kafkapy.registry.rest import rest
        from kafkapy.registry.subjects import Subjects
        from kafkapy.registry.topic import SchemasTopic
        from kafkapy.serving.http_server import HttpServer

        subjects = Subjects()
        server = HttpServer(*self._address, name="kafkapy-registry")
        stack.callback(server.stop)
        topic = SchemasTopic(self._config, self._name, subjects.apply)
        topic.start()
        stack.callback(topic.stop)
        server.serve(rest(Registry(subjects, topic.write, topic.settle)))
        stack.callback(server.stop)  # requests end before their topic does
        return server.url
