"""What is shown of share groups: records, share partitions, sessions, states."""

from __future__ import annotations

from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.share.counts import ShareCounts
from kafkapy.share.share_partition import ACCEPT, REJECT, RELEASE, Acknowledgement
from tests.handlers.produce_client import create_topic
from tests.handlers.share_client import ShareMember
from tests.metrics.prometheus import serving
from tests.metrics.test_scrapes import produce
from tests.network.raw_client import RawClient, eventually

ACKNOWLEDGED = "kafka_server_sharegroupmetrics_recordacknowledgements_total"
PARTITION = "kafka_server_sharepartitionmetrics"
TOPIC = "kafka_server_brokertopicmetrics"
SESSIONS = "kafka_server_sharesessioncache"
COORDINATOR = "kafka_server_share_coordinator_metrics"
SETTINGS = {"group.share.assignment.interval.ms": 0, "group.share.min.record.lock.duration.ms": 1000}


def test_what_became_of_records_is_shown() -> None:
    of_partition = {"group": 'sha"rers', "topic": "orders", "partition": "0"}
    with serving(SETTINGS) as served, RawClient(served.broker.bootstrap_servers) as client:
        assert not served.scrape().having(ACKNOWLEDGED)
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=['sha"rers']), 4)
        member = ShareMember(client, "orders", create_topic(client, "orders"), group='sha"rers')
        assert member.join() == [0]
        member.fetch(max_wait_ms=1)
        produce(served.broker, "orders", 9)
        assert member.fetch(max_records=100).ranges
        found = served.scrape()
        assert found.get(f"{PARTITION}_inflightmessagecount", **of_partition) == 9
        assert found.get(f"{PARTITION}_inflightbatchcount", **of_partition) == 1
        assert found.get(f"{SESSIONS}_sharesessionscount") == 1
        assert found.get(f"{SESSIONS}_sharepartitionscount") == 1
        assert (found.get(f"{TOPIC}_bytesout_total", topic="orders") or 0) > 900
        assert member.acknowledge((0, 3, [ACCEPT]), (4, 6, [RELEASE, ACCEPT, REJECT])) == 0
        assert member.acknowledge((6, 6, [ACCEPT])) != 0  # once is enough
        found = served.scrape()
        counts = {
            kind: found.get(ACKNOWLEDGED, ackType=kind) for kind in ("Accept", "Release", "Reject", "Renew")
        }
        assert counts == {"Accept": 5, "Release": 1, "Reject": 1, "Renew": 0}
        assert found.get(f"{TOPIC}_totalshareacknowledgementrequests_total", topic="orders") == 2
        assert found.get(f"{TOPIC}_failedshareacknowledgementrequests_total", topic="orders") == 1
        assert (found.get(f"{TOPIC}_totalsharefetchrequests_total", topic="orders") or 0) >= 2
        assert found.get(f"{TOPIC}_failedsharefetchrequests_total", topic="orders") == 0
        assert found.get("kafka_server_sharegroupmetrics_partitionloadtimems_count") == 1
        assert (found.get("kafka_server_delayedsharefetchmetrics_expires_total") or 0) >= 1
        assert (found.get("kafka_server_group_coordinator_metrics_share_group_rebalance_count") or 0) >= 1
        assert (found.get(f"{COORDINATOR}_write_total") or 0) >= 1
        assert (found.get(f"{COORDINATOR}_write_latency_max") or 0) > 0
        assert (found.get(f"{COORDINATOR}_num_partitions", state="active") or 0) > 0
        timeouts = f"{PARTITION}_acquisitionlocktimeout_total"
        assert found.get(timeouts, **of_partition) == 0


def test_records_whose_locks_end_are_counted() -> None:
    settings = {**SETTINGS, "group.share.record.lock.duration.ms": 1000}
    with serving(settings) as served, RawClient(served.broker.bootstrap_servers) as client:
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        member = ShareMember(client, "orders", create_topic(client, "orders"))
        assert member.join() == [0]
        member.fetch(max_wait_ms=1)
        produce(served.broker, "orders", 3)
        assert member.fetch().ranges
        timeouts = f"{PARTITION}_acquisitionlocktimeout_total"
        eventually(lambda: list(served.scrape().having(timeouts).values()) == [3], "the locks have ended")


def test_one_type_counts_for_all_its_records() -> None:
    counts = ShareCounts(0.0)
    counts.acknowledge([Acknowledgement(5, 9, [ACCEPT]), Acknowledgement(10, 12, [ACCEPT, RELEASE, ACCEPT])])
    assert counts.acknowledged == {ACCEPT: 7, RELEASE: 1}
