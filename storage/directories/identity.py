"""The identity of log directories: the cluster and the broker that meta.properties names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkapy.storage.disk.log_directory import LogDirectory, LogDirectoryError, has_rotted


class Identity(NamedTuple):
    """None if the directories are new."""

    cluster_id: str | None
    node_id: int | None


def identity_of(directories: Iterable[LogDirectory]) -> Identity:
    """The identity that open directories state.

    Raises:
        LogDirectoryError: they belong to several brokers.
    """
    identity = Identity(None, None)
    for directory in directories:
        meta = directory.meta
        for found, other in ((meta.cluster_id, identity.cluster_id), (meta.node_id, identity.node_id)):
            if None not in (found, other) and found != other and not has_rotted(found, other):
                raise LogDirectoryError(
                    f"{directory.path} belongs to {found}, other log directories to {other}. Name only "
                    "directories of one broker in log.dirs."
                )
        identity = Identity(
            meta.cluster_id or identity.cluster_id,
            identity.node_id if meta.node_id is None else meta.node_id,
        )
    return identity
