"""The commands of `kafkapy cluster`: what kafka-cluster.sh and others show of a cluster.

`kafkapy cluster` alone runs one (kafkapy/cli.py), and needs no client library for that.
"""

from __future__ import annotations

from typing import Any

import click

from kafkapy.commands.options import Session, confirm, connected, dry_run, settings, yes
from kafkapy.commands.output import cell
from kafkapy.errors import UserError


@click.group()
def cluster() -> None:
    """Show the brokers of a cluster, its id, features and quorum (kafka-cluster.sh and others)."""


@cluster.command("list-endpoints")
@connected
def list_endpoints(session: Session) -> None:
    """List the brokers, with their addresses (kafka-cluster.sh list-endpoints)."""
    rows = [_broker(broker) for broker in session.admin.brokers()]
    session.output.rows(rows, ("broker", "host", "port", "rack", "fenced"))


@cluster.command()
@connected
def describe(session: Session) -> None:
    """Show the cluster's id, its controller and its brokers (kafka-cluster.sh cluster-id)."""
    with session.admin.calls() as client:
        found = client.describe_cluster()
    rows = [_broker(broker) for broker in session.admin.brokers()]
    document = {"cluster_id": found["cluster_id"], "controller": found["controller_id"]}
    if session.output.format == "text":
        session.output.item({**document, "brokers": ", ".join(f"{row['broker']}" for row in rows)})
    else:
        session.output.item({**document, "brokers": rows})


@cluster.command("api-versions")
@click.argument("broker", type=int, required=False)
@connected
def api_versions(session: Session, broker: int | None) -> None:
    """Show which requests a broker takes, and in which versions (kafka-broker-api-versions.sh)."""
    from kafka.protocol.api_key import ApiKey
    from kafka.protocol.metadata import ApiVersionsRequest

    from kafkapy.commands.connection.failures import check

    request = ApiVersionsRequest(client_software_name="kafkapy", client_software_version="0")
    answer = session.admin.send(request, broker)
    check(answer.error_code, None, "cluster")
    names = {int(key): key.name for key in ApiKey}
    rows = [
        {
            "api_key": each.api_key,
            "api": names.get(each.api_key),
            "min_version": each.min_version,
            "max_version": each.max_version,
        }
        for each in answer.api_keys
    ]
    session.output.rows(rows, ("api_key", "api", "min_version", "max_version"))


@cluster.command()
@connected
def features(session: Session) -> None:
    """Show the cluster's features (kafka-features.sh describe)."""
    with session.admin.calls() as client:
        found = client.describe_features()
    rows = [
        {
            "feature": name,
            "supported_min": levels.get("supported", (None, None))[0],
            "supported_max": levels.get("supported", (None, None))[1],
            "finalized": levels.get("finalized", (None, None))[1],
        }
        for name, levels in sorted(found.items())
    ]
    session.output.rows(rows, ("feature", "supported_min", "supported_max", "finalized"))


@cluster.command("upgrade-features")
@click.argument("levels", metavar="FEATURE=LEVEL...", nargs=-1, required=True)
@dry_run
@connected
def upgrade_features(session: Session, levels: tuple[str, ...], dry_run: bool) -> None:
    """Give features of the cluster higher levels (kafka-features.sh upgrade)."""
    _change_features(session, levels, "UPGRADE", dry_run=dry_run)


@cluster.command("downgrade-features")
@click.argument("levels", metavar="FEATURE=LEVEL...", nargs=-1, required=True)
@click.option("--unsafe", is_flag=True, help="Even if metadata are lost by it.")
@dry_run
@yes
@connected
def downgrade_features(
    session: Session, levels: tuple[str, ...], unsafe: bool, dry_run: bool, yes: bool
) -> None:
    """Give features of the cluster lower levels; 0 disables one (kafka-features.sh downgrade)."""
    if not dry_run:
        confirm(f"Downgrade {', '.join(levels)}?", sure=yes)
    kind = "UNSAFE_DOWNGRADE" if unsafe else "SAFE_DOWNGRADE"
    _change_features(session, levels, kind, dry_run=dry_run)


@cluster.command()
@connected
def quorum(session: Session) -> None:
    """Show the quorum of the controllers (kafka-metadata-quorum.sh describe)."""
    with session.admin.calls() as client:
        found = client.describe_metadata_quorum()
    (partition,) = found["topics"][0]["partitions"]
    rows = [
        {
            "node": replica["replica_id"],
            "role": _role(role, replica["replica_id"], partition["leader_id"]),
            "log_end_offset": replica["log_end_offset"],
            "lag": partition["high_watermark"] - replica["log_end_offset"],
        }
        for role, replicas in (("voter", "current_voters"), ("observer", "observers"))
        for replica in partition[replicas]
    ]
    if session.output.format == "text":
        epoch, mark = partition["leader_epoch"], partition["high_watermark"]
        click.echo(f"leader {cell(partition['leader_id'])}, epoch {epoch}, high watermark {mark}")
    session.output.rows(rows, ("node", "role", "log_end_offset", "lag"))


def _change_features(session: Session, levels: tuple[str, ...], kind: str, *, dry_run: bool) -> None:
    """Change levels, all or none of them; raises UserError if the controller refuses one."""
    changes = {}
    for feature, level in settings(levels, "feature").items():
        if not level.isdigit():
            raise UserError(f"{feature}={level}: expected a level such as 1")
        changes[feature] = (kind, int(level))
    with session.admin.calls() as client:
        found = client.update_features(changes, validate_only=dry_run, timeout_ms=session.admin.timeout_ms)
    done = "would be changed" if dry_run else "changed"
    session.results(
        [
            {
                "feature": feature,
                "level": level,
                "result": done if found[feature] == "OK" else "failed",
                "error": None if found[feature] == "OK" else found[feature],
            }
            for feature, (_, level) in changes.items()
        ],
        ("feature", "level", "result"),
    )


def _broker(broker: dict[str, Any]) -> dict[str, Any]:
    return {
        "broker": broker["broker_id"],
        "host": broker["host"],
        "port": broker["port"],
        "rack": broker["rack"],
        "fenced": bool(broker.get("is_fenced")),
    }


def _role(role: str, node: int, leader: int) -> str:
    return "leader" if node == leader else role
