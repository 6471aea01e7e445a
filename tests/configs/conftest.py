"""A cluster of one broker without its logs."""

from tests.controller.cluster_world import cluster, start_cluster

__all__ = ["cluster", "start_cluster"]
