"""What dashboards and alert rules query returns series, in a real Prometheus."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from interop.prometheus.prometheus_process import PrometheusProcess
from interop.support import debian
from interop.support.waiting import wait_until
from kafkapy.metrics.names import Spelling
from tests.metrics.test_names import QUERIED
from tests.ports import free_ports
from tests.servers.kafkapy_process import KafkapyProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"

OF_7589 = (
    'sum(rate(kafka_topic_partition_current_offset{instance=~"$instance", topic=~"$topic"}[1m])) by (topic)',
    'sum(delta(kafka_topic_partition_current_offset{instance=~"$instance", topic=~"$topic"}[5m])/5)'
    " by (topic)",
    'sum(kafka_consumergroup_lag{instance=~"$instance",topic=~"$topic"}) by (consumergroup, topic)',
    'sum(delta(kafka_consumergroup_current_offset{instance=~"$instance",topic=~"$topic"}[5m])/5)'
    " by (consumergroup, topic)",
    'sum by(topic) (kafka_topic_partitions{instance=~"$instance",topic=~"$topic"})',
)
OF_11962 = (
    'sum (rate(kafka_server_brokertopicmetrics_bytesout_total{job="$job",instance=~"$broker",topic!=""}[1m]))'
    "by(instance)",
    'sum (rate(kafka_server_brokertopicmetrics_bytesin_total{job="$job",instance=~"$broker",topic!=""}[1m]))'
    "by(instance)",
    'sum (rate(kafka_server_brokertopicmetrics_totalproducerequests_total{job="$job",instance=~"$broker",'
    'topic!="",topic=~"$topic"}[1m]))by(topic)',
    'sum(rate(kafka_network_requestmetrics_requests_total{request=~"Produce",job="$job",'
    'instance=~"$broker"}[1m]))by(instance)',
    'sum(irate(kafka_network_requestmetrics_requests_total{request="FetchConsumer",job="$job",'
    'instance=~"$broker"}[5m]))by(instance)',
    'sum(irate(kafka_server_brokertopicmetrics_failedproducerequests_total{job=~"$job",'
    'instance=~"$broker"}[1m]))by(instance)',
    'sum (irate(kafka_server_replicamanager_isrexpands_total{job="$job",instance=~"$broker"}[1m]))',
    'sum (irate(kafka_server_replicamanager_isrshrinks_total{job="$job",instance=~"$broker"}[1m]))',
    'sum (kafka_server_delayedoperationpurgatory_purgatorysize{job="$job",delayedOperation="Fetch",'
    'instance=~"$broker"})by(instance)',
    'sum (kafka_server_delayedoperationpurgatory_purgatorysize{job="$job",delayedOperation="Produce",'
    'instance=~"$broker"})by(instance)',
    'sum (irate(kafka_server_brokertopicmetrics_totalfetchrequests_total{job="$job",instance=~"$broker",'
    'topic!=""}[1m]))by(instance)',
    'sum (irate(kafka_log_logflushstats_logflushrateandtimems_count{job="$job",instance=~"$broker"}[5m]))'
    "by(instance)",
    'sum (irate(kafka_controller_controllerstats_leaderelectionrateandtimems_count{job="$job",'
    'instance=~"$broker"}[1m]))by(instance)',
    'kafka_cluster_partition_replicascount{job=~"$job",topic=~"$topic"}',
    'sort(sum(kafka_log_log_size{job=~"$job",instance=~"$broker"})by(instance))',
)
"""Those that public copies of the dashboard have unchanged, some of them as comments."""

RECORDS = 200


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusProcess]:
    """A Prometheus that has scraped a broker at work a few times."""
    if problem := debian.installed("prometheus", "prometheus"):
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("prometheus")
    (port,) = free_ports(1)
    rules = folder / "rules.yml"
    rules.write_text(alert_rules())
    with (
        KafkapyProcess(folder / "broker", properties={"metrics.port": str(port)}) as broker,
        PrometheusProcess(folder, f"127.0.0.1:{port}", rules) as started,
    ):
        work(broker.bootstrap_servers)
        # The offsets of the group are scraped, often enough for rates.
        wait_until(lambda: started.query('kafka_consumergroup_lag{consumergroup="readers"} == 0'))
        wait_until(lambda: started.query("count_over_time(kafka_consumergroup_lag[1m]) > 3"))
        yield started


def alert_rules() -> str:
    """The alert rules of the page for operators."""
    (rules,) = re.findall(r"^```yaml\n(groups:\n.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(rules)


def work(bootstrap_servers: str) -> None:
    """Produce records, and consume them in a group."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    read = 0
    while read < RECORDS:
        read += len(consumer.consume(RECORDS - read, timeout=10))
    consumer.commit(asynchronous=False)
    consumer.close()


def filled_in(expression: str) -> str:
    """A query of a dashboard, with its variables as Grafana fills them in."""
    for name in ("instance", "broker", "topic"):
        expression = expression.replace(f"${name}", ".+")
    return expression.replace("$job", "kafka")


@pytest.mark.parametrize("expression", OF_7589)
def test_a_query_of_dashboard_7589_returns_series(prometheus: PrometheusProcess, expression: str) -> None:
    assert prometheus.query(filled_in(expression))


@pytest.mark.parametrize("expression", OF_11962)
def test_a_query_of_dashboard_11962_returns_series(prometheus: PrometheusProcess, expression: str) -> None:
    assert prometheus.query(filled_in(expression))


@pytest.mark.parametrize("name", QUERIED[Spelling.JMX].split())
def test_a_name_of_strimzis_dashboards_has_series(prometheus: PrometheusProcess, name: str) -> None:
    assert prometheus.query(name)


def test_prometheus_has_the_values_of_the_broker(prometheus: PrometheusProcess) -> None:
    (series,) = prometheus.query('kafka_server_brokertopicmetrics_messagesin_total{topic="orders"}')
    assert series["value"][1] == str(RECORDS)
    (series,) = prometheus.query('kafka_topic_partition_current_offset{topic="orders",partition="0"}')
    assert series["value"][1] == str(RECORDS)


def test_the_alert_rules_of_the_page_are_evaluated_and_silent(prometheus: PrometheusProcess) -> None:
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == alert_rules().count("- alert:")
    wait_until(
        lambda: all(
            rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]
        )
    )
    alerts = {alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"]}
    assert alerts <= {"KafkaEventLoopIsLate"}  # which it may be, on a busy machine


def test_promtool_accepts_the_alert_rules_of_the_page(tmp_path: Path) -> None:
    if problem := debian.installed("promtool", "prometheus"):
        pytest.skip(problem)
    rules = tmp_path / "rules.yml"
    rules.write_text(alert_rules())
    checked = subprocess.run(("promtool", "check", "rules", str(rules)), capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr
