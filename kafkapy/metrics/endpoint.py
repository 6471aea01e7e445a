"""The port for metrics, from the start of a broker to its end.

It is bound early, as the listeners are: a port in use is found before anything is changed. From then on
/health answers. /ready does while clients are served, and /metrics with it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listeners import Listener, format_address
from kafkapy.metrics.http_server import Answer, HttpServer
from kafkapy.metrics.names import Names, Spelling
from kafkapy.metrics.served_broker import ServedBroker
from kafkapy.network.server import listening_socket

if TYPE_CHECKING:
    from kafkapy.metrics.scrape import Scrapes

NOT_SERVING: Final = Answer(503, [b"The broker starts or stops.\n"])

logger = logging.getLogger(__name__)


class MetricsEndpoint:
    """Serves /metrics, /health and /ready."""

    def __init__(self, config: BrokerConfig) -> None:
        """The endpoint that `config` sets, which is not bound.

        Raises:
            ConfigError: the client library is not installed.
        """
        try:
            import prometheus_client  # noqa: F401
        except ModuleNotFoundError as error:
            if error.name != "prometheus_client":
                raise
            raise ConfigError(
                "metrics.port is set, and prometheus_client is not installed:"
                " pip install '.[metrics]' in a checkout."
            ) from None
        self._config = config
        self._names = Names(Spelling(config["metrics.names"]))
        self._scrapes: Scrapes | None = None
        self._broker: ServedBroker | None = None
        self._http = HttpServer({"/metrics": self._metrics, "/health": self._health, "/ready": self._ready})
        self.address = ""
        """The host and the port, once they are bound."""

    async def bind(self) -> None:
        """Listen, and answer that the broker starts.

        Raises:
            ListenError: the address cannot be used.
        """
        config = self._config
        host, port = config["metrics.host"], config["metrics.port"]
        listening = listening_socket(Listener("metrics.port", host, port), config)
        port = listening.getsockname()[1]
        await self._http.start(listening)
        self.address = format_address(host, port)

    @property
    def connections(self) -> int:
        """How many clients are being served."""
        return self._http.connections

    def serve(self, broker: ServedBroker) -> None:
        """Count what `broker` does from now on, and show it; its clients are not accepted yet."""
        from kafkapy.metrics.scrape import Scrapes  # the client library is some 20 modules

        self._broker = broker
        self._scrapes = Scrapes(broker, self._names)
        logger.info("Metrics are at http://%s/metrics", self.address)

    async def stop(self) -> None:
        """Answer no more."""
        await self._http.stop()
        if self._scrapes is not None:
            await self._scrapes.stop()

    async def _metrics(self, takes_gzip: bool) -> Answer:
        if self._scrapes is None or not self._is_ready:
            return NOT_SERVING
        return await self._scrapes.answer(takes_gzip)

    async def _health(self, _: bool) -> Answer:
        """The loop answers, so the process lives."""
        return Answer(200, [b"alive\n"])

    async def _ready(self, _: bool) -> Answer:
        return (
            Answer(200, [b"ready\n"]) if self._is_ready else Answer(503, [b"The broker starts or stops.\n"])
        )

    @property
    def _is_ready(self) -> bool:
        """Whether clients are served: the broker accepts them, and is registered for them."""
        broker = self._broker
        return (
            broker is not None
            and broker.server.is_accepting
            and broker.node_id in broker.metadata.image.brokers
        )
