package org.apache.kafka.common.test;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.test.TestUtils;

import java.io.File;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** The brokers of a test in Scala, a subclass of QuorumTestHarness. */
public final class HarnessCluster implements AutoCloseable {
    /** Settings of KRaft's own. */
    private static final Pattern KRAFT = Pattern.compile(
        "node\\.id|process\\.roles|controller\\..*|metadata\\.log\\.dir|unstable\\..*|server\\.max\\.startup.*");

    private final File directory = TestUtils.tempDirectory();
    private final boolean readsLogins;
    private final List<UserScramCredentialRecord> users;
    private final Map<Integer, BrokerOutside> brokers = new TreeMap<>();

    /** `readsLogins` says that the metrics that the test reads are those of logins. */
    public HarnessCluster(Formatter formatter, boolean readsLogins) {
        this.readsLogins = readsLogins;
        if (readsLogins)
            LoginsOutside.register(directory.getAbsolutePath(), brokers.keySet());
        users = formatter.bootstrapMetadata().records().stream()
            .map(record -> record.message())
            .filter(UserScramCredentialRecord.class::isInstance)
            .map(UserScramCredentialRecord.class::cast)
            .toList();
    }

    public KafkaBroker broker(KafkaConfig config, boolean clustered, boolean startup) {
        Map<String, Object> settings = new HashMap<>(config.originals());
        settings.keySet().removeIf(name -> KRAFT.matcher(name).matches());
        settings.put("log.dirs", String.join(",", config.logDirs()));
        BrokerOutside broker = new BrokerOutside(
            directory.getAbsolutePath(), config.brokerId(), clustered, settings, config, users);
        brokers.put(config.brokerId(), broker);
        if (readsLogins)
            broker.showLogins();
        if (startup)
            broker.start();
        return broker.server();
    }

    /** One that stands for KRaft's controller. */
    public ControllerServer controller() {
        return ControllerOutside.server(brokers.values());
    }

    @Override
    public void close() {
        KafkapyBrokers.ask("close", "directory", directory.getAbsolutePath());
        try {
            Utils.delete(directory);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
