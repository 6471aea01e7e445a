"""The names, in the three spellings that dashboards query."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkapy.metrics.names import MBEANS, OTHERS, Kind, Names, Spelling
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from tests.metrics.prometheus import serving
from tests.metrics.test_client_traffic import set_quotas
from tests.metrics.test_scrapes import consume, create, produce
from tests.network.raw_client import RawClient

QUERIED = {
    Spelling.JMX: """
kafka_cluster_partition_atminisr kafka_cluster_partition_replicascount kafka_cluster_partition_underminisr
kafka_controller_controllerstats_uncleanleaderelections_total
kafka_controller_kafkacontroller_activecontrollercount kafka_controller_kafkacontroller_offlinepartitionscount
kafka_log_log_size kafka_network_socketserver_networkprocessoravgidle_percent
kafka_server_brokertopicmetrics_bytesin_total kafka_server_brokertopicmetrics_bytesout_total
kafka_server_brokertopicmetrics_failedfetchrequests_total
kafka_server_brokertopicmetrics_failedproducerequests_total kafka_server_brokertopicmetrics_messagesin_total
kafka_server_brokertopicmetrics_totalfetchrequests_total
kafka_server_brokertopicmetrics_totalproducerequests_total
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
kafka_server_kafkaserver_linux_disk_read_bytes kafka_server_kafkaserver_linux_disk_write_bytes
kafka_server_replicamanager_leadercount kafka_server_replicamanager_partitioncount
kafka_server_replicamanager_underreplicatedpartitions kafka_server_socket_server_metrics_connection_count
kafka_server_replicamanager_isrshrinks_total kafka_server_replicamanager_isrexpands_total
kafka_controller_controllerstats_leaderelectionrateandtimems_count
kafka_log_logflushstats_logflushrateandtimems_count kafka_server_delayedoperationpurgatory_purgatorysize
kafka_network_requestmetrics_requests_total kafka_server_replicafetchermanager_maxlag
kafka_server_replicafetchermanager_minfetchrate
kafka_server_replicamanager_underminisrpartitioncount kafka_log_logmanager_offlinelogdirectorycount
process_open_fds
""",
    Spelling.CONFLUENT: """
kafka_cluster_partition_underminisr kafka_controller_controllerstats_uncleanleaderelectionspersec
kafka_controller_kafkacontroller_activecontrollercount kafka_controller_kafkacontroller_globalpartitioncount
kafka_controller_kafkacontroller_globaltopiccount kafka_controller_kafkacontroller_offlinepartitionscount
kafka_controller_kafkacontroller_preferredreplicaimbalancecount
kafka_coordinator_group_groupmetadatamanager_numgroups
kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance
kafka_coordinator_group_groupmetadatamanager_numgroupsdead
kafka_coordinator_group_groupmetadatamanager_numgroupsempty
kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance
kafka_coordinator_group_groupmetadatamanager_numgroupsstable kafka_log_log_logendoffset
kafka_log_log_logstartoffset kafka_log_log_size kafka_network_requestchannel_requestqueuesize
kafka_network_requestchannel_responsequeuesize kafka_network_requestmetrics_errorspersec
kafka_network_requestmetrics_localtimems kafka_network_requestmetrics_remotetimems
kafka_network_requestmetrics_requestqueuetimems kafka_network_requestmetrics_requestspersec
kafka_network_requestmetrics_responsequeuetimems kafka_network_requestmetrics_responsesendtimems
kafka_network_requestmetrics_totaltimems kafka_network_socketserver_networkprocessoravgidlepercent
kafka_server_brokertopicmetrics_bytesinpersec kafka_server_brokertopicmetrics_bytesoutpersec
kafka_server_brokertopicmetrics_messagesinpersec kafka_server_brokertopicmetrics_totalfetchrequestspersec
kafka_server_brokertopicmetrics_totalproducerequestspersec
kafka_server_fetchsessioncache_numincrementalfetchsessions
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate
kafka_server_kafkaserver_brokerstate kafka_server_kafkaserver_linux_disk_read_bytes
kafka_server_kafkaserver_linux_disk_write_bytes kafka_server_replicamanager_leadercount
kafka_server_replicamanager_isrshrinkspersec kafka_server_replicamanager_isrexpandspersec
kafka_server_replicamanager_partitioncount kafka_server_replicamanager_underreplicatedpartitions
kafka_server_socketservermetrics_connection_close_rate kafka_server_socketservermetrics_connection_count
kafka_server_socketservermetrics_connection_creation_rate process_cpu_seconds_total
kafka_server_socketservermetrics_connections
kafka_server_brokertopicmetrics_fetchmessageconversionspersec
kafka_server_brokertopicmetrics_producemessageconversionspersec
kafka_server_fetchsessioncache_incrementalfetchsessionevictionspersec
kafka_server_replicafetchermanager_maxlag kafka_server_replicafetchermanager_minfetchrate
kafka_server_transaction_coordinator_metrics_partition_load_time_avg
kafka_server_transaction_coordinator_metrics_partition_load_time_max
kafka_server_fetch_byte_rate kafka_server_fetch_throttle_time kafka_server_produce_byte_rate
kafka_server_produce_throttle_time kafka_server_request_request_time kafka_server_request_throttle_time
""",
    Spelling.STRIMZI: """
kafka_cluster_partition_atminisr kafka_cluster_partition_replicascount kafka_cluster_partition_underminisr
kafka_controller_controllerstats_uncleanleaderelectionspersec_total
kafka_controller_kafkacontroller_activecontrollercount kafka_controller_kafkacontroller_offlinepartitionscount
kafka_log_log_size kafka_network_socketserver_networkprocessoravgidlepercent
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total
kafka_server_brokertopicmetrics_bytesinpersec_total kafka_server_brokertopicmetrics_bytesoutpersec_total
kafka_server_brokertopicmetrics_failedfetchrequestspersec_total
kafka_server_brokertopicmetrics_failedproducerequestspersec_total
kafka_server_brokertopicmetrics_messagesinpersec_total
kafka_server_brokertopicmetrics_totalfetchrequestspersec_total
kafka_server_brokertopicmetrics_totalproducerequestspersec_total
kafka_server_kafkaserver_linux_disk_read_bytes kafka_server_kafkaserver_linux_disk_write_bytes
kafka_server_replicamanager_leadercount kafka_server_replicamanager_partitioncount
kafka_server_replicamanager_underreplicatedpartitions kafka_server_socket_server_metrics_connection_count
process_open_fds
""",
}
"""What public dashboards and alert rules query, of what this broker has."""

BEFORE_THE_FIRST = {
    "kafka_client_info",
    "kafkapy_client_fetch_bytes_total",
    "kafkapy_client_produce_bytes_total",
    "kafkapy_client_throttle_seconds_total",
    "kafkapy_client_throttles_total",
    "kafkapy_transactions",
    "kafka_consumergroup_members",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_current_offset_sum",
    "kafka_consumergroup_lag",
    "kafka_consumergroup_lag_sum",
    "kafka_consumergroup_lag_seconds",
    "ShareGroupMetrics.PartitionLoadTimeMs",
    "SharePartitionMetrics.AcquisitionLockTimeoutPerSec",
    "SharePartitionMetrics.InFlightBatchCount",
    "SharePartitionMetrics.InFlightMessageCount",
    "LogFlushStats.LogFlushRateAndTimeMs",
    "ControllerStats.LeaderElectionRateAndTimeMs",
}
"""What a broker shows once it has a group, a transaction, a sync, or a client that pushes."""

OF_ZOOKEEPER = ("ZooKeeperClientMetrics.", "SessionExpireListener.")
"""What a broker shows in a cluster only (interop/zookeeper/test_metrics.py)."""


@pytest.mark.parametrize("spelling", Spelling)
def test_a_broker_has_the_names_that_dashboards_query(spelling: Spelling) -> None:
    with serving({"metrics.names": spelling.value}) as served:
        create(served.broker, "orders")
        set_quotas(
            served.broker.bootstrap_servers,
            producer_byte_rate=1e9,
            consumer_byte_rate=1e9,
            request_percentage=1e6,
        )
        produce(served.broker, "orders", 1)
        consume(served.broker, "readers", "orders", 1)
        with RawClient(served.broker.bootstrap_servers) as client:
            client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
            found = served.scrape().names
    assert set(QUERIED[spelling].split()) - found == set()
    names = Names(spelling)
    wanted = {
        names[key].name for key in names if key not in BEFORE_THE_FIRST and not key.startswith(OF_ZOOKEEPER)
    }
    wanted = {f"{name}_count" if name == "kafkapy_event_loop_lag_seconds" else name for name in wanted}
    assert wanted - found == set()
    ours = {name for name in found if name.startswith(("kafka_", "kafkapy_"))}
    known = {names[key].name for key in names}
    assert {re.sub("_(count|bucket|sum)$", "", name) for name in ours - known} <= known


NOT_HERE = {
    "raft": "there is no KRaft",
    "tier": "nothing is tiered",
    "stray": "KRaft's, too",
    "acceptorblocked": "connections beyond a limit wait outside",
    "deprecatedrequests": "no version is deprecated",
    "active_transaction_total_time_max": "Confluent Server's",
    "partitions_total_size": "Confluent Server's",
    "prepare_commit_to_complete_commit_latency": "Confluent Server's",
    "transaction_state_error_count": "Confluent Server's",
    "transaction_timeout": "Confluent Server's",
    "transactional_id_count": "Confluent Server's",
}
"""Parts of names that dashboards query, and why they are not here."""


def test_the_page_says_of_what_is_not_here_that_panels_stay_empty() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
    (paragraph,) = re.findall(r"^These panels stay empty.*?\n\n", page, re.DOTALL | re.MULTILINE)
    assert [part for part in NOT_HERE if part not in paragraph] == []
    said = set(re.findall(r"(?:kafka_|…)[a-z_]+", paragraph))
    for spelling in Spelling:
        names = {Names(spelling)[key].name for key in Names(spelling)}
        assert [part for part in said if any(part.strip("…") in name for name in names)] == []


@pytest.mark.parametrize("spelling", Spelling)
def test_no_two_metrics_have_one_name(spelling: Spelling) -> None:
    names = Names(spelling)
    assert len({names[key].name for key in names}) == len(MBEANS) + len(OTHERS)


def test_the_spellings_are_those_of_the_exporters() -> None:
    by_key = {each.key: each for each in MBEANS}
    messages = by_key["BrokerTopicMetrics.MessagesInPerSec"]
    assert [messages.spelled(each) for each in Spelling] == [
        "kafka_server_brokertopicmetrics_messagesin_total",
        "kafka_server_brokertopicmetrics_messagesinpersec",
        "kafka_server_brokertopicmetrics_messagesinpersec_total",
    ]
    idle = by_key["KafkaRequestHandlerPool.RequestHandlerAvgIdlePercent"]
    assert [idle.spelled(each).rpartition("requesthandler")[2] for each in Spelling] == [
        "avgidle_percent",
        "avgidlepercent_oneminuterate",
        "avgidlepercent_total",
    ]
    assert all(each.name.endswith("PerSec") for each in MBEANS if each.kind is Kind.METER)
