"""What a broker's metrics show of its session with ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from interop.support.zookeeper_process import ZooKeeperProcess
from interop.zookeeper.test_sessions import expire, until
from kafkapy.broker.core import BrokerCore
from kafkapy.configs.config import BrokerConfig
from kafkapy.metadata.zookeeper import ZooKeeperStore
from kafkapy.metrics.names import Names, Spelling
from kafkapy.metrics.scrape import Scrapes
from tests.metrics.prometheus import Samples

OF_SESSIONS = "kafka_server_sessionexpirelistener_zookeeper"


async def test_requests_and_losses_of_the_session_are_counted(tmp_path: Path) -> None:
    with ZooKeeperProcess(tmp_path / "zookeeper") as server:
        settings = {
            "zookeeper.connect": server.bootstrap_servers,
            "zookeeper.session.timeout.ms": "30000",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path / "data"),
            "broker.id": "1",
        }
        broker = BrokerCore(BrokerConfig(settings))
        await broker.start()
        scrapes = Scrapes(broker, Names(Spelling.CONFLUENT))

        async def scrape() -> Samples:
            return Samples(b"".join((await scrapes.answer(False)).body).decode())

        try:
            found = await scrape()
            latency = "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms"
            assert (found.get(f"{latency}_count") or 0) > 10
            assert (found.get(latency, quantile="0.99") or 0) > 0
            assert found.get(f"{OF_SESSIONS}syncconnectspersec") == 1
            assert found.get(f"{OF_SESSIONS}disconnectspersec") == 0
            assert found.get(f"{OF_SESSIONS}authfailurespersec") == 0
            assert isinstance(broker.store, ZooKeeperStore)
            counts = broker.store.session_counts
            server.kill()
            server.start()
            await until(lambda: counts.connects == 2)
            assert counts.disconnects == 1
            await expire(broker.store)
            await until(lambda: counts.connects >= 3)
            found = await scrape()
            assert found.get(f"{OF_SESSIONS}expirespersec") == 1
            assert found.get(f"{OF_SESSIONS}syncconnectspersec") == counts.connects
        finally:
            await scrapes.stop()
            await broker.stop()
