"""Runs brokers for Apache Kafka's own tests, which ask for them on standard input.

Commands, and their answers on standard output, are lines of JSON. All brokers run in this process, as those
of `kafkapy cluster` do: a test gets new ones in some hundredths of a second. It ends when its input does.

    {"command": "start", "directory": D, "number": 0, "clustered": false, "settings": {…}}    {"port": 9092}
    {"command": "stop", "directory": D, "number": 0}                                          {}
    {"command": "cluster_id", "directory": D}                                             {"cluster_id": "…"}
    {"command": "topics", "directory": D, "number": 0}                                        {"t": {…}}
    {"command": "alive", "directory": D, "number": 0}                                         {"alive": […]}
    {"command": "close", "directory": D}                                                  {}

`directory` names the cluster. The answer to what fails is {"error": "…"}.
"""

from __future__ import annotations

import base64
import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from kafkapy.broker.core import BrokerCore, StartError
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.inprocess import TEST_DEFAULTS, Broker
from kafkapy.metadata.embedded import EmbeddedStore

_METADATA: Final = "metadata.db"
_FOR_SPEED: Final = ("listeners", "durability", "group.initial.rebalance.delay.ms")


def _defaults() -> dict[str, object]:
    """The defaults of `kafkapy serve`, where `kafkapy.Broker` has others."""
    config = BrokerConfig.from_properties({"log.dirs": "unused"})
    return {name: config.default(name) for name in TEST_DEFAULTS if name not in _FOR_SPEED}


class OwnBroker(Broker):
    """A broker alone, or one of a cluster whose metadata is in `metadata`."""

    def __init__(self, settings: Mapping[str, object], folder: Path, metadata: Path | None) -> None:
        super().__init__(config=settings, data_dir=folder)
        self._metadata = metadata

    def _new_core(self, config: BrokerConfig) -> BrokerCore:
        if self._metadata is None:
            return super()._new_core(config)
        path = self._metadata

        async def open_store() -> EmbeddedStore:
            return await EmbeddedStore.open(path, sync=False)

        return BrokerCore(config, cluster_store=open_store)


class Brokers:
    """The running brokers of all clusters, by the cluster's directory and the broker's id."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], OwnBroker] = {}
        self._defaults = _defaults()

    def answer(self, request: Mapping[str, Any]) -> dict[str, object]:
        arguments = {name: value for name, value in request.items() if name != "command"}
        try:
            return cast("dict[str, object]", getattr(self, request["command"])(**arguments))
        except (ConfigError, StartError) as error:
            return {"error": f"kafkapy refused to start: {error}"}
        except Exception:
            return {"error": traceback.format_exc()}

    def start(
        self, directory: str, number: int, clustered: bool, settings: Mapping[str, str]
    ) -> dict[str, object]:
        folder = Path(directory)
        metadata = folder / _METADATA if clustered else None
        broker = OwnBroker({**self._defaults, **settings, "broker.id": number}, folder, metadata)
        broker.start()
        self._running[directory, number] = broker
        return {"port": broker.core.server.listening[0].port}

    def stop(self, directory: str, number: int) -> dict[str, object]:
        if broker := self._running.pop((directory, number), None):
            broker.stop()
        return {}

    def cluster_id(self, directory: str) -> dict[str, object]:
        broker = next(broker for (of, _), broker in self._running.items() if of == directory)
        return {"cluster_id": broker.core.metadata.image.cluster_id}

    def topics(self, directory: str, number: int) -> dict[str, object]:
        """The ids of the topics that a broker knows, their leaders and replicas in sync."""
        topics = self._running[directory, number].core.metadata.image.topics.values()
        return {
            topic.name: {
                "id": base64.urlsafe_b64encode(topic.id).decode().rstrip("="),
                "partitions": [{"leader": state.leader, "isr": state.isr} for state in topic.partitions],
            }
            for topic in topics
        }

    def alive(self, directory: str, number: int) -> dict[str, object]:
        """The running brokers that a broker knows."""
        brokers = self._running[directory, number].core.metadata.image.brokers.values()
        return {
            "alive": [
                {"id": broker.id, "host": endpoint.host, "port": endpoint.port, "listener": endpoint.listener}
                for broker in brokers
                for endpoint in broker.endpoints.values()
            ]
        }

    def close(self, directory: str) -> dict[str, object]:
        for of, number in list(self._running):
            if of == directory:
                self.stop(of, number)
        return {}


def main() -> None:
    brokers = Brokers()
    for line in sys.stdin:
        print(json.dumps(brokers.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
