import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.QuotaType;
import org.apache.kafka.server.quota.QuotaUtils;

/**
 * Answers questions about quotas with Apache Kafka's own classes, a line for each line.
 *
 *   rate WINDOWS SECONDS LIMIT MS:VALUE ...     the throttle time after each record of a rate
 *   bucket WINDOWS SECONDS RATE MS:VALUE ...    the throttle time of each strict change; 0 if it was allowed
 *   quota USER,CLIENT,LIMIT ... / USER CLIENT   the quota of a client; - is none, * the default
 */
public class Quotas {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ");
            System.out.println(words[0].equals("quota") ? quota(words) : throttles(words));
            System.out.flush();
        }
        System.exit(0);
    }

    private static String throttles(String[] words) {
        boolean isRate = words[0].equals("rate");
        var config = new MetricConfig()
            .samples(Integer.parseInt(words[1]))
            .timeWindow(Long.parseLong(words[2]), TimeUnit.SECONDS)
            .quota(Quota.upperBound(Double.parseDouble(words[3])));
        var answers = new StringJoiner(" ");
        try (var metrics = new Metrics()) {
            Sensor sensor = metrics.sensor("sensor");
            sensor.add(metrics.metricName("metric", "group"), isRate ? new Rate() : new TokenBucket(), config);
            for (int i = 4; i < words.length; i++) {
                String[] parts = words[i].split(":");
                long ms = Long.parseLong(parts[0]);
                double value = Double.parseDouble(parts[1]);
                long throttle = 0;
                try {
                    if (isRate) {
                        sensor.record(value, ms, true);
                    } else {
                        sensor.checkQuotas(ms);
                        sensor.record(value, ms, false);
                    }
                } catch (QuotaViolationException e) {
                    throttle = isRate ? QuotaUtils.throttleTime(e, ms) : Math.round(-e.value() / e.bound() * 1000);
                }
                answers.add(Long.toString(throttle));
            }
        }
        return answers.toString();
    }

    private static String quota(String[] words) {
        var manager = new ClientQuotaManager(
            new ClientQuotaManagerConfig(), new Metrics(), QuotaType.PRODUCE, Time.SYSTEM, "quotas");
        int i = 1;
        for (; !words[i].equals("/"); i++) {
            String[] parts = words[i].split(",");
            manager.updateQuota(user(parts[0]), client(parts[1]),
                Optional.of(Quota.upperBound(Double.parseDouble(parts[2]))));
        }
        double bound = manager.quota(name(words[i + 1]), name(words[i + 2])).bound();
        manager.initiateShutdown();
        return bound >= Long.MAX_VALUE ? "-" : Double.toString(bound);
    }

    private static String name(String word) {
        return word.equals("-") ? "" : word;
    }

    private static Optional<ClientQuotaEntity.ConfigEntity> user(String word) {
        return switch (word) {
            case "-" -> Optional.empty();
            case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
            default -> Optional.of(new ClientQuotaManager.UserEntity(word));
        };
    }

    private static Optional<ClientQuotaEntity.ConfigEntity> client(String word) {
        return switch (word) {
            case "-" -> Optional.empty();
            case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
            default -> Optional.of(new ClientQuotaManager.ClientIdEntity(word));
        };
    }
}
