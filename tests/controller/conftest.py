"""A cluster of one broker without its logs."""

from tests.controller.brokers_world import world
from tests.controller.cluster_world import cluster, hand, start_broker, start_cluster

__all__ = ["cluster", "hand", "start_broker", "start_cluster", "world"]
