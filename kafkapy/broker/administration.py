"""The parts of a broker that reach other brokers and change the metadata of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.broker.data import Data
from kafkapy.broker.start import Start
from kafkapy.controller.admin import ClusterAdmin
from kafkapy.controller.automatic_topics import AutomaticTopics
from kafkapy.inter_broker.inter_broker import InterBroker
from kafkapy.inter_broker.loopback import LoopbackConnection, LoopbackPeer
from kafkapy.network.dispatcher import Dispatcher
from kafkapy.policies.calls import Policies

if TYPE_CHECKING:
    from kafkapy.broker.cluster_member import ClusterMember
    from kafkapy.security.acls.authorizer import Authorizer
    from kafkapy.security.token_cache import TokenCache


class Administration(NamedTuple):
    """The requests to brokers, and the changes of the metadata."""

    loopback: LoopbackPeer
    inter_broker: InterBroker
    admin: ClusterAdmin
    automatic_topics: AutomaticTopics


def make_administration(
    start: Start,
    data: Data,
    member: ClusterMember | None,
    dispatcher: Dispatcher,
    policies: Policies,
    authorizer: Authorizer | None,
    tokens: TokenCache | None,
) -> Administration:
    """Make the parts; `ClusterAdmin.start` registers the broker.

    Args:
        member: the parts that only a broker of a cluster has.
        dispatcher: answers the requests of this broker to itself.
        policies, authorizer: the operator's.
        tokens: the delegation tokens, if there are any.
    """
    config, clock, started = start.config, start.machine.clock, start.started
    node_id, peers = data.node_id, None if member is None else member.peers
    listener = config.inter_broker_listener
    loopback = LoopbackPeer(dispatcher, LoopbackConnection(node_id, listener))
    inter_broker = InterBroker(start.metadata, loopback, node_id=node_id, listener=listener, peers=peers)
    started.callback(inter_broker.close)
    admin = ClusterAdmin(
        data.store,
        start.metadata,
        config,
        data.changes,
        node_id=node_id,
        clock=clock,
        own_broker=None if member is None else member.requests,
        peers=peers,
        policies=policies,
        authorizer=authorizer,
        tokens=tokens,
        certificate_names=start.certificate_names,
    )
    automatic_topics = AutomaticTopics(
        admin.topics,
        start.metadata,
        config,
        node_id=node_id,
        clock=clock,
        ask_controller=None if member is None else member.controller.ask,
    )
    started.push_async_callback(automatic_topics.stop)
    return Administration(loopback, inter_broker, admin, automatic_topics)
