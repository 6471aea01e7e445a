package org.apache.kafka.common.test;

import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** How many logins a broker has accepted, refused and ended, as the metrics that tests of logins read. */
final class LoginsOutside {
    private static final String ENDED = "expired-connections-killed-count";
    private static final List<String> NAMES = List.of(
        ENDED,
        "successful-authentication-total",
        "failed-authentication-total",
        "successful-reauthentication-total",
        "failed-reauthentication-total"
    );

    private LoginsOutside() {
    }

    /** The metrics of one broker. */
    static Metrics metrics(String cluster, int id) {
        Map<MetricName, KafkaMetric> metrics = new HashMap<>();
        for (String each : NAMES) {
            MetricName name = new MetricName(each, "socket-server-metrics", "", Map.of());
            Gauge<Double> count = (config, now) -> count(cluster, id, each);
            metrics.put(name, new KafkaMetric(new Object(), name, count, new MetricConfig(), Time.SYSTEM));
        }
        return Outside.of(Metrics.class, Map.of("metrics", call -> metrics));
    }

    /** Registers the metric of all brokers in the JVM, which each test forgets at its end. */
    static void register(String cluster, Collection<Integer> ids) {
        KafkaYammerMetrics.defaultRegistry().newGauge(
            KafkaYammerMetrics.getMetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount"),
            new com.yammer.metrics.core.Gauge<Double>() {
                @Override
                public Double value() {
                    return ids.stream().mapToDouble(id -> count(cluster, id, ENDED)).sum();
                }
            });
    }

    private static double count(String cluster, int id, String name) {
        return KafkapyBrokers.ask("logins", "directory", cluster, "number", id, "name", name).get("count").asDouble();
    }
}
