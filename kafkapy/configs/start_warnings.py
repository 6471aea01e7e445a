"""Warnings at a start about settings that do not do what one may expect."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping

from kafkapy.configs.brokers import MIN_INSYNC_REPLICAS, hints
from kafkapy.configs.config import REBALANCE_PROTOCOLS, BrokerConfig
from kafkapy.configs.groups import beyond_limits
from kafkapy.configs.listeners import format_address
from kafkapy.configs.unsupported import AUTHORIZER
from kafkapy.logs.text import listed, shortened
from kafkapy.protocol.compiled import missing_parts
from kafkapy.storage.disk.open_files import share_descriptors
from kafkapy.storage.log.log_config import NEVER

logger = logging.getLogger(__name__)


def before_the_start(config: BrokerConfig) -> None:
    """Log what the settings and the machine do not allow, before anything is changed."""
    _settings(config)
    _compiled_parts()
    _open_listeners(config)
    _descriptors(config)


def _settings(config: BrokerConfig) -> None:
    """Name the settings without effect, and those that relax durability=fsync."""
    if unknown := config.unknown():
        logger.warning("These settings are not known and have no effect: %s", hints(unknown))
    if idle := config.without_effect():
        logger.warning("These settings have no effect in this broker: %s", ", ".join(idle))
    if config.text(REBALANCE_PROTOCOLS) != config.default(REBALANCE_PROTOCOLS):
        logger.warning(
            "%s=%s refuses groups of other protocols, except share groups. Apache Kafka 5.0 will not know the"
            " setting: remove it to allow all.",
            REBALANCE_PROTOCOLS,
            config.text(REBALANCE_PROTOCOLS),
        )
    if config["durability"] != "fsync":
        return
    for name in ("log.flush.interval.messages", "log.flush.interval.ms"):
        if config[name] < NEVER:
            logger.warning(
                "%s=%s relaxes durability=fsync for all topics: a power cut may take what was"
                " acknowledged and not synced yet.",
                name,
                config[name],
            )


def _compiled_parts() -> None:
    """Say if the parts in C are missing, since their twins in Python are slow."""
    if missing := missing_parts(("kafkapy.storage.disk._sync_queue", "kafkapy.storage.cleaning._compactor")):
        logger.warning(
            "The compiled parts are missing (%s): producing takes three times the CPU. Install a C compiler,"
            " then kafkapy again.",
            ", ".join(missing),
        )


def _open_listeners(config: BrokerConfig) -> None:
    """Name the listeners that other machines reach, if nothing protects the broker from them."""
    if config[AUTHORIZER]:
        return
    for listener in config.listeners:
        if not listener.protocol.has_login and not _is_of_this_machine(listener.host):
            logger.warning(
                "%s://%s takes clients from other machines, and there is no access control: each of them may"
                " read, change and delete everything. Let only trusted networks reach it.",
                listener.name,
                format_address(listener.host, listener.port),
            )


def _is_of_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".invalid")  # RFC 6761: no machine has such a name


def _descriptors(config: BrokerConfig) -> None:
    """Log how many files and connections the limit of open files allows."""
    shares = share_descriptors(config["log.max.open.files"])
    logger.info(
        "The limit of open files leaves room for %s files of logs and %s connections",
        f"{shares.log_files:,}",
        f"{shares.connections:,}",
    )
    for name, share in (("log.max.open.files", shares.log_files), ("max.connections", shares.connections)):
        if name in config.originals and (config[name] or 0) > share:
            logger.warning("%s=%d is more than that; raise the limit (ulimit -n).", name, config[name])


def settings_of_groups(config: BrokerConfig, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Name the settings of groups that were stored while the broker had other limits."""
    if beyond := beyond_limits(groups, config):
        logger.warning(
            "Settings of groups are outside of this broker's limits; the nearest value counts: %s",
            listed([f"{name}={text} of {shortened(group)}" for name, text, group in beyond]),
        )


def sole_broker(config: BrokerConfig) -> None:
    """Name settings that a broker alone cannot fulfil, or that its cluster has otherwise.

    Clients of a topic that needs more brokers would retry for ever without an explanation.
    """
    for name, what in (
        ("default.replication.factor", "topics without a replication factor of their own"),
        ("offsets.topic.replication.factor", "__consumer_offsets, and so any consumer group,"),
    ):
        if config[name] > 1:
            logger.warning(
                "%s=%d, and brokers: 1. Until there are enough, %s cannot be created; set it to 1.",
                name,
                config[name],
                what,
            )
    given, in_effect = config.originals.get(MIN_INSYNC_REPLICAS), config[MIN_INSYNC_REPLICAS]
    if given is not None and given.strip() != str(in_effect):
        logger.warning(
            "%s=%s has no effect: the cluster's is %d. Change it as a setting of all brokers"
            " (kafka-configs --entity-type brokers --entity-default).",
            MIN_INSYNC_REPLICAS,
            given,
            in_effect,
        )
