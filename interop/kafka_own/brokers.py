"""Runs brokers for Apache Kafka's own tests, which ask for them on standard input.

Commands, and their answers on standard output, are lines of JSON. All brokers run in this process, as those
of `kafkapy cluster` do: a test gets new ones in some hundredths of a second. It ends when its input does.

    {"command": "start", "directory": D, "number": 0, "clustered": false, "settings": {…},
     "principals": {"LISTENER": "User:a"}, "users": […], "kerberos": ""}         {"ports": {"LISTENER": 9092}}
    {"command": "stop", "directory": D, "number": 0}                                          {}
    {"command": "cluster_id", "directory": D}                                             {"cluster_id": "…"}
    {"command": "topics", "directory": D, "number": 0}                                        {"t": {…}}
    {"command": "log", "directory": D, "number": 0, "topic": "t", "partition": 0}             {"start": 0, …}
    {"command": "producers", "directory": D, "number": 0, "topic": "t", "partition": 0}     {"producers": […]}
    {"command": "checkpoint", "directory": D, "number": 0}                                    {}
    {"command": "alive", "directory": D, "number": 0}                                         {"alive": […]}
    {"command": "users", "directory": D, "number": 0}                        {"users": {"SCRAM-SHA-256": […]}}
    {"command": "group", "directory": D, "number": 0, "group": "g"}              {"session_timeout_ms": …}
    {"command": "setting", "directory": D, "number": 0, "name": "a.setting"}                  {"value": …}
    {"command": "quota", "directory": D, "number": 0, "kind": "PRODUCE", "principal": "User:a",
     "client_id": "c"}                                                                       {"limit": null}
    {"command": "connection_rate", "directory": D, "number": 0, "address": "1.2.3.4"}         {"limit": null}
    {"command": "logins", "directory": D, "number": 0, "name": "a-metric"}                    {"count": 0}
    {"command": "tokens", "directory": D, "number": 0}                                    {"tokens": […]}
    {"command": "acls", "directory": D, "number": 0}                                          {"acls": […]}
    {"command": "create_acls", "directory": D, "number": 0, "acls": […]}                  {}
    {"command": "delete_acls", "directory": D, "number": 0, "acls": […]}                  {}
    {"command": "close", "directory": D}                                                  {}

`directory` names the cluster. The answer to what fails is {"error": "…"}.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from kafkapy.broker import listeners
from kafkapy.broker.core import BrokerCore, StartError
from kafkapy.broker.start import Start
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listeners import Listener
from kafkapy.controller.acls import AclAdmin
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.modern.settings import SESSION_TIMEOUT, GroupSettings
from kafkapy.inprocess import TEST_DEFAULTS, Broker
from kafkapy.logins import ScramCredential
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.quotas import USER, quota_entity
from kafkapy.network.channel import Channel
from kafkapy.network.connection import Connection
from kafkapy.network.entrance import Entrance, OpenEntrance, SaslAnswer
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.types import TopicPartition
from kafkapy.quotas import ClientQuotaType
from kafkapy.security import entrances
from kafkapy.security.acls.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkapy.security.sasl.exchange import Exchange, LoginError
from kafkapy.security.sasl.login import SaslLogin
from kafkapy.security.sasl.mechanisms import LoginParts
from kafkapy.security.sasl.scram_credential import (
    MECHANISMS,
    ScramMechanism,
    encode_credential,
)
from kafkapy.share.settings import ShareSettings

_METADATA: Final = "metadata.db"
_FOR_SPEED: Final = ("listeners", "durability", "group.initial.rebalance.delay.ms")


def _defaults() -> dict[str, object]:
    """The defaults of `kafkapy serve`, where `kafkapy.Broker` has others."""
    config = BrokerConfig.from_properties({"log.dirs": "unused"})
    return {name: config.default(name) for name in TEST_DEFAULTS if name not in _FOR_SPEED}


_own: Final = threading.local()
"""What belongs to the broker of this thread: the `principals` of its clients, and its `logins`."""


def _entrance(listener: Listener, start: Start, parts: LoginParts | None) -> Entrance:
    principal = _own.principals.get(listener.name)
    if principal is not None:
        return NamedClients(principal)
    return _usual_entrance(listener, start, parts)


_usual_entrance: Final = listeners._entrance


class NamedClients(OpenEntrance):
    """A PLAINTEXT listener whose clients have a principal, which the tests name in Java."""

    def __init__(self, principal: str) -> None:
        self._principal = principal

    def admit(self, connection: Connection, _channel: Channel) -> None:
        connection.principal = self._principal


class CountedLogin(SaslLogin):
    """A login that is counted under the names of Apache Kafka's metrics."""

    def refusal(self, header: RequestHeader) -> str | None:
        is_in, refused = self._is_in, super().refusal(header)
        if is_in and refused is not None:
            _own.logins["expired-connections-killed-count"] += 1
        return refused

    def _come_in(self, name: str, exchange: Exchange) -> int:
        kind, lifetime_ms = self._kind, super()._come_in(name, exchange)
        _own.logins[f"successful-{kind}-total"] += 1
        return lifetime_ms

    async def _fail(self, error: LoginError, claimed: str | None) -> SaslAnswer:
        _own.logins[f"failed-{self._kind}-total"] += 1
        return await super()._fail(error, claimed)

    @property
    def _kind(self) -> str:
        return "reauthentication" if self._is_in else "authentication"


class OwnBroker(Broker):
    """A broker alone, or one of a cluster whose metadata is in `metadata`."""

    def __init__(
        self,
        settings: Mapping[str, object],
        folder: Path,
        metadata: Path | None,
        principals: Mapping[str, str],
    ) -> None:
        super().__init__(config=settings, data_dir=folder)
        self._metadata = metadata
        self._principals = principals
        self.logins: Counter[str] = Counter()

    def _new_core(self, config: BrokerConfig) -> BrokerCore:
        # Each broker has a thread of its own.
        _own.principals, _own.logins = self._principals, self.logins
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
        self,
        directory: str,
        number: int,
        clustered: bool,
        settings: Mapping[str, str],
        principals: Mapping[str, str],
        users: Sequence[Sequence[Any]],
        kerberos: str,
    ) -> dict[str, object]:
        """Start a broker.

        Args:
            principals: those of the clients of some listeners.
            users: the users of SCRAM that exist before the first start, each with its name, the number of the
                mechanism, salt, stored key and server key in base 64, and iterations.
            kerberos: the settings of the test's Kerberos server, if it has one.
        """
        os.environ["KRB5_CONFIG"] = kerberos
        folder = Path(directory)
        metadata = folder / _METADATA if clustered else None
        if settings.get("metric.reporters"):
            settings = {**settings, "metrics.port": "0"}  # a reporter there has clients push their metrics
        broker = OwnBroker({**self._defaults, **settings, "broker.id": number}, folder, metadata, principals)
        broker.start()
        if users and directory not in {of for of, _ in self._running}:
            broker.call(partial(_make_users, users=users))
        self._running[directory, number] = broker
        return {"ports": {each.name: each.port for each in broker.core.server.listening}}

    def stop(self, directory: str, number: int) -> dict[str, object]:
        if broker := self._running.pop((directory, number), None):
            broker.stop()
        return {}

    def cluster_id(self, directory: str) -> dict[str, object]:
        broker = next(broker for (of, _), broker in self._running.items() if of == directory)
        return {"cluster_id": broker.core.metadata.image.cluster_id}

    def topics(self, directory: str, number: int) -> dict[str, object]:
        """The topics that a broker knows: ids, settings, leaders and replicas."""
        topics = self._running[directory, number].core.metadata.image.topics.values()
        return {
            topic.name: {
                "id": base64.urlsafe_b64encode(topic.id).decode().rstrip("="),
                "configs": dict(topic.configs),
                "partitions": [
                    {
                        "leader": state.leader,
                        "epoch": state.leader_epoch,
                        "isr": state.isr,
                        "replicas": state.replicas,
                    }
                    for state in topic.partitions
                ],
            }
            for topic in topics
        }

    def log(self, directory: str, number: int, topic: str, partition: int) -> dict[str, object]:
        """The directory, offsets and size of a log."""
        log = self._running[directory, number].core.logs.logs[TopicPartition(topic, partition)]
        return {
            "directory": str(log.directory),
            "start": log.log_start_offset,
            "end": log.log_end_offset,
            "high_watermark": log.high_watermark,
            "size": log.size,
        }

    def producers(self, directory: str, number: int, topic: str, partition: int) -> dict[str, object]:
        """The producers of a log, each as numbers: its id and epoch, and what else is known of it."""
        log = self._running[directory, number].core.logs.logs[TopicPartition(topic, partition)]
        return {
            "producers": [
                [producer, entry.epoch, entry.coordinator_epoch, entry.last_timestamp, entry.txn_first_offset]
                for producer, entry in log.producers.copy_producers().items()
            ]
        }

    def checkpoint(self, directory: str, number: int) -> dict[str, object]:
        """Write the high watermarks, as the broker does every few seconds."""

        async def write(core: BrokerCore) -> None:
            await core.blocking(core.logs.checkpoint_high_watermarks())

        self._running[directory, number].call(write)
        return {}

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

    def users(self, directory: str, number: int) -> dict[str, object]:
        """The users of SCRAM that a broker knows, by mechanism."""
        configs = self._running[directory, number].core.metadata.image.client_quotas.configs
        users = [(entity[0][1], content) for entity, content in configs.items() if entity[0][0] == USER]
        return {"users": {text: [name for name, content in users if text in content] for text in MECHANISMS}}

    def group(self, directory: str, number: int, group: str) -> dict[str, object]:
        """Settings in effect of a consumer or share group."""
        core = self._running[directory, number].core
        consumer = GroupSettings(
            "consumer", GroupConfig.from_broker(core.config), lambda: core.metadata.image
        )
        share = ShareSettings(core.config, lambda: core.metadata.image)
        return {
            "session_timeout_ms": consumer.of(group, SESSION_TIMEOUT),
            "lock_ms": share.lock_ms(group),
        }

    def setting(self, directory: str, number: int, name: str) -> dict[str, object]:
        """The value of a broker's setting that is in effect."""
        return {"value": self._running[directory, number].core.config[name]}

    def quota(
        self, directory: str, number: int, kind: str, principal: str, client_id: str
    ) -> dict[str, object]:
        """The quota that a client has, None without one."""
        quotas = self._running[directory, number].core.quotas
        if quotas is None:
            return {"limit": None}
        callback, quota_type = quotas._callback, ClientQuotaType[kind]
        tags = callback.quota_metric_tags(quota_type, principal, client_id)
        return {"limit": callback.quota_limit(quota_type, tags)}

    def connection_rate(self, directory: str, number: int, address: str) -> dict[str, object]:
        """How many connections in a second an address may open, None without a limit."""
        rates = self._running[directory, number].core.server.limits._rates
        return {"limit": None if rates is None else rates._limits.get(address, rates._limits.get(None))}

    def logins(self, directory: str, number: int, name: str) -> dict[str, object]:
        """How many logins Apache Kafka's metric of this name would count."""
        return {"count": self._running[directory, number].logins[name]}

    def tokens(self, directory: str, number: int) -> dict[str, object]:
        """The ids of the delegation tokens that a broker knows."""
        return {"tokens": list(self._running[directory, number].core.metadata.image.delegation_tokens)}

    def acls(self, directory: str, number: int) -> dict[str, object]:
        """All ACLs that a broker knows, each as its numbers and texts."""
        patterns = self._acl_admin(directory, number).patterns
        return {"acls": [[*acl.pattern, *acl[1:]] for each in patterns.values() for acl in each.acls]}

    def create_acls(self, directory: str, number: int, acls: Iterable[Sequence[Any]]) -> dict[str, object]:
        admin = self._acl_admin(directory, number)
        wanted = [
            Acl(
                ResourcePattern(ResourceType(kind), PatternType(pattern), name),
                principal,
                host,
                Operation(operation),
                Permission(permission),
            )
            for kind, pattern, name, principal, host, operation, permission in acls
        ]
        errors = self._running[directory, number].call(lambda _: admin.create(wanted))
        return {"error": str(errors)} if any(errors) else {}

    def delete_acls(self, directory: str, number: int, acls: Iterable[Sequence[Any]]) -> dict[str, object]:
        admin = self._acl_admin(directory, number)
        filters = [
            AclFilter(
                ResourceType(kind),
                PatternType(pattern),
                name,
                principal,
                host,
                Operation(operation),
                Permission(permission),
            )
            for kind, pattern, name, principal, host, operation, permission in acls
        ]
        self._running[directory, number].call(lambda _: admin.delete(filters))
        return {}

    def _acl_admin(self, directory: str, number: int) -> AclAdmin:
        admin = self._running[directory, number].core.admin.acls
        assert admin is not None
        return admin

    def close(self, directory: str) -> dict[str, object]:
        """Kill all brokers of a cluster, as nobody needs their data.

        The last one could hand over to none.
        """
        for of, number in list(self._running):
            if of == directory:
                self._running.pop((of, number)).kill()
        return {}


async def _make_users(core: BrokerCore, *, users: Sequence[Sequence[Any]]) -> None:
    """Write what kafka-storage writes for users before the first start of a cluster."""
    configs: dict[str, dict[str, str]] = {}
    for name, mechanism, salt, stored_key, server_key, iterations in users:
        salt, stored_key, server_key = map(base64.b64decode, (salt, stored_key, server_key))
        text = encode_credential(ScramCredential(salt, stored_key, server_key, iterations))
        configs.setdefault(name, {})[ScramMechanism(mechanism).text] = text
    nodes = core.admin._entity_nodes
    wanted = [(quota_entity({USER: name}), content) for name, content in configs.items()]
    await nodes.change(wanted, lambda some: nodes.commit(dict(some)))


def main() -> None:
    listeners._entrance = _entrance
    vars(entrances)["SaslLogin"] = CountedLogin
    brokers = Brokers()
    for line in sys.stdin:
        print(json.dumps(brokers.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
