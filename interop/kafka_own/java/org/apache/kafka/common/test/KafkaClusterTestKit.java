package org.apache.kafka.common.test;

import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * Starts brokers of kafkapy where Apache Kafka's class of this name starts its own.
 *
 * All clusters of Apache Kafka's tests are made by this class: those of ClusterTest through
 * RaftClusterInvocationContext, those of Kafka Streams through EmbeddedKafkaCluster. The settings of a test go
 * to the brokers as they are; only KRaft's own are left out.
 */
public class KafkaClusterTestKit implements AutoCloseable {
    /** Collects what the test sets. */
    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, Object> settings = new HashMap<>();
        private boolean deleteOnClose = true;

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            settings.put(key, value);
            return this;
        }

        /** About KRaft's quorum. */
        public Builder setStandalone(boolean standalone) {
            return this;
        }

        public Builder setInitialVoterSet(Map<Integer, Uuid> initialVoterSet) {
            throw new NeedsTheInside("a quorum of controllers");
        }

        public Builder setDeleteOnClose(boolean deleteOnClose) {
            this.deleteOnClose = deleteOnClose;
            return this;
        }

        public KafkaClusterTestKit build() {
            return new KafkaClusterTestKit(nodes, settings, deleteOnClose);
        }
    }

    private final TestKitNodes nodes;
    private final boolean deleteOnClose;
    private final Map<Integer, BrokerOutside> brokers = new TreeMap<>();
    private final MockFaultHandler fatal = new MockFaultHandler("fatal");
    private final MockFaultHandler nonFatal = new MockFaultHandler("nonFatal");

    private KafkaClusterTestKit(TestKitNodes nodes, Map<String, Object> settings, boolean deleteOnClose) {
        this.nodes = nodes;
        this.deleteOnClose = deleteOnClose;
        boolean clustered = nodes.brokerNodes().size() > 1;
        nodes.brokerNodes().forEach((id, node) -> {
            Map<String, Object> own = settingsOf(node, settings);
            brokers.put(id, new BrokerOutside(nodes.baseDirectory(), id, clustered, own, config(id, own)));
        });
    }

    private Map<String, Object> settingsOf(TestKitNode node, Map<String, Object> settings) {
        String listener = nodes.brokerListenerName().value();
        Map<String, Object> own = new HashMap<>();
        own.put("listeners", listener + "://localhost:0");
        own.put("inter.broker.listener.name", listener);
        own.put("listener.security.protocol.map", listener + ":" + nodes.brokerListenerProtocol());
        if (hasLogins()) {
            own.put("sasl.enabled.mechanisms", "PLAIN");
            own.put("sasl.mechanism.inter.broker.protocol", "PLAIN");
            own.put("authorizer.class.name", StandardAuthorizer.class.getName());
            own.put("allow.everyone.if.no.acl.found", "false");
            own.put("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        }
        own.putAll(settings);
        own.putAll(node.propertyOverrides());
        own.put("log.dirs", String.join(",", node.logDataDirectories()));
        return own;
    }

    /** Of the protocols with logins, Apache Kafka's class of this name knows this one. */
    private boolean hasLogins() {
        return nodes.brokerListenerProtocol() == SecurityProtocol.SASL_PLAINTEXT;
    }

    /** The users that its tests have. */
    private static void writeJaasFile() {
        JaasModule module = JaasModule.plainLoginModule(
            JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD, true, Map.of(
                JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD,
                JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
        try {
            JaasUtils.refreshJavaLoginConfigParam(JaasUtils.writeJaasContextsToFile(Set.of(
                new JaasUtils.JaasSection(JaasUtils.KAFKA_SERVER_CONTEXT_NAME, List.of(module)))));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** What Apache Kafka would make of the settings, for tests that read it. */
    private KafkaConfig config(int id, Map<String, Object> settings) {
        Map<String, Object> more = new HashMap<>(settings);
        more.put("node.id", String.valueOf(id));
        more.put("process.roles", "broker");
        more.put("controller.quorum.voters", "3000@localhost:9093");
        more.put("controller.listener.names", nodes.controllerListenerName().value());
        more.computeIfPresent("listener.security.protocol.map", (name, map) ->
            map + (map.toString().contains("CONTROLLER:") ? "" : ",CONTROLLER:PLAINTEXT"));
        return new KafkaConfig(more, false);
    }

    /** kafkapy's brokers need no formatting. */
    public void format() {
    }

    public void startup() {
        if (hasLogins())
            writeJaasFile();
        brokers.values().forEach(BrokerOutside::start);
    }

    /** They are ready when startup returns. */
    public void waitForReadyBrokers() {
    }

    public Admin admin() {
        return admin(Map.of(), false);
    }

    public Admin admin(Map<String, Object> configs) {
        return admin(configs, false);
    }

    public Admin admin(Map<String, Object> configs, boolean usingBootstrapControllers) {
        Map<String, Object> all = new HashMap<>(configs);
        all.putIfAbsent(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG,
            usingBootstrapControllers ? bootstrapControllers() : bootstrapServers());
        if (hasLogins()) {
            all.putIfAbsent(AdminClientConfig.SECURITY_PROTOCOL_CONFIG, nodes.brokerListenerProtocol().name);
            all.putIfAbsent(SaslConfigs.SASL_MECHANISM, "PLAIN");
            all.putIfAbsent(SaslConfigs.SASL_JAAS_CONFIG, String.format(
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";",
                JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
        }
        return Admin.create(all);
    }

    public String bootstrapServers() {
        return brokers.values().stream()
            .map(broker -> "localhost:" + broker.port())
            .collect(Collectors.joining(","));
    }

    public String bootstrapControllers() {
        throw new NeedsTheInside("KRaft's controllers, as a client's bootstrap");
    }

    public Map<Integer, ControllerServer> controllers() {
        ControllerServer server = ControllerOutside.server(brokers.values());
        return nodes.controllerNodes().keySet().stream().collect(Collectors.toMap(id -> id, id -> server));
    }

    public Controller waitForActiveController() {
        throw new NeedsTheInside("Controller");
    }

    public Map<Integer, BrokerServer> brokers() {
        Map<Integer, BrokerServer> servers = new LinkedHashMap<>();
        brokers.forEach((id, broker) -> servers.put(id, broker.server()));
        return servers;
    }

    public Map<Integer, KafkaRaftManager<ApiMessageAndVersion>> raftManagers() {
        throw new NeedsTheInside("KafkaRaftManager");
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return fatal;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return nonFatal;
    }

    /** Whether each broker that runs knows a topic with so many partitions, 0 for none. */
    public boolean allKnow(String topic, int partitions) {
        return brokers.values().stream()
            .allMatch(broker -> !broker.isRunning() || broker.partitionsOf(topic) == partitions);
    }

    @Override
    public void close() throws Exception {
        KafkapyBrokers.ask("close", "directory", nodes.baseDirectory());
        if (deleteOnClose)
            Utils.delete(new File(nodes.baseDirectory()));
    }
}
