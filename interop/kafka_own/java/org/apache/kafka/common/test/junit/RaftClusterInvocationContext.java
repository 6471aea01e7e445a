package org.apache.kafka.common.test.junit;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.NotServed;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;

import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

import java.io.File;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BooleanSupplier;

/**
 * Gives each test of ClusterTest a cluster of kafkapy, where Apache Kafka's class of this name gives one of its own.
 *
 * ClusterInstance waits for brokers by looking into them; here that is asked of kafkapy.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private static final String GROUP_PROTOCOLS = "group.coordinator.rebalance.protocols";

    private final String name;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int invocationIndex) {
        return name + " [" + invocationIndex + "] " + String.join(",", config.tags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        KafkapyInstance instance = new KafkapyInstance(config, isCombined);
        return List.of(
            (ExecutionCondition) context -> isCombined && config.clusterTypes().contains(Type.KRAFT)
                ? ConditionEvaluationResult.disabled("the same brokers serve it as Type.KRAFT")
                : ConditionEvaluationResult.enabled(null),
            (BeforeEachCallback) context -> {
                if (config.isAutoStart())
                    instance.start();
            },
            (AfterTestExecutionCallback) context -> instance.stop(),
            new ClusterInstanceParameterResolver(instance)
        );
    }

    private static final class KafkapyInstance implements ClusterInstance {
        /** The features whose version 0 switches a protocol of groups off, as GROUP_PROTOCOLS does. */
        private static final Map<Feature, String> PROTOCOL_FEATURES =
            Map.of(Feature.GROUP_VERSION, "consumer", Feature.STREAMS_VERSION, "streams");
        private static final long PATIENCE_MS = 60_000;
        private static final long PAUSE_MS = 10;

        private final ClusterConfig config;
        private final boolean isCombined;
        private KafkaClusterTestKit cluster;
        private boolean started = false;
        private boolean stopped = false;

        KafkapyInstance(ClusterConfig config, boolean isCombined) {
            this.config = config;
            this.isCombined = isCombined;
        }

        private KafkaClusterTestKit cluster() {
            if (cluster == null) {
                TestKitNodes nodes = new TestKitNodes.Builder()
                    .setCombined(isCombined)
                    .setNumBrokerNodes(config.numBrokers())
                    .setNumDisksPerBroker(config.numDisksPerBroker())
                    .setPerServerProperties(config.perServerOverrideProperties())
                    .setNumControllerNodes(config.numControllers())
                    .setBrokerListenerName(config.brokerListenerName())
                    .setBrokerSecurityProtocol(config.brokerSecurityProtocol())
                    .setControllerListenerName(config.controllerListenerName())
                    .setControllerSecurityProtocol(config.controllerSecurityProtocol())
                    .build();
                KafkaClusterTestKit.Builder builder = new KafkaClusterTestKit.Builder(nodes);
                builder.setConfigProp(GROUP_PROTOCOLS, String.join(",", groupProtocols()));
                config.serverProperties().forEach(builder::setConfigProp);
                cluster = builder.build();
            }
            return cluster;
        }

        @Override
        public void start() {
            if (!started) {
                if (isOff(Feature.SHARE_VERSION))
                    throw new NotServed("a cluster without share groups (share.version 0)");
                cluster().startup();
                started = true;
            }
        }

        @Override
        public boolean started() {
            return started;
        }

        @Override
        public void stop() {
            if (!stopped) {
                stopped = true;
                Utils.closeQuietly(cluster, "cluster");
            }
        }

        @Override
        public boolean stopped() {
            return stopped;
        }

        @Override
        public void shutdownBroker(int brokerId) {
            broker(brokerId).shutdown();
        }

        @Override
        public void startBroker(int brokerId) {
            broker(brokerId).startup();
        }

        private KafkaBroker broker(int brokerId) {
            return Optional.<KafkaBroker>ofNullable(cluster().brokers().get(brokerId))
                .orElseThrow(() -> new IllegalArgumentException("Unknown brokerId " + brokerId));
        }

        @Override
        public void waitForReadyBrokers() {
            cluster().waitForReadyBrokers();
        }

        @Override
        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            if (partitions <= 0)
                throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
            waitUntil(() -> cluster().allKnow(topic, partitions), topic + " is not known to all brokers");
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            waitUntil(() -> cluster().allKnow(topic, 0), topic + " is still known to brokers");
            waitUntil(() -> !hasDirectory(topic), topic + " still has directories");
        }

        private boolean hasDirectory(String topic) {
            return cluster().nodes().brokerNodes().values().stream()
                .flatMap(node -> node.logDataDirectories().stream())
                .anyMatch(directory -> new File(directory, topic + "-0").exists());
        }

        private static void waitUntil(BooleanSupplier condition, String otherwise) throws InterruptedException {
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (!condition.getAsBoolean()) {
                if (System.currentTimeMillis() > deadline)
                    throw new AssertionError(otherwise);
                Thread.sleep(PAUSE_MS);
            }
        }

        /** The brokers of kafkapy learn of changes before they are answered, or wait for them. */
        @Override
        public void ensureConsistentMetadata() {
        }

        @Override
        public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            return groupProtocols().contains("consumer")
                ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)
                : Set.of(GroupProtocol.CLASSIC);
        }

        private List<String> groupProtocols() {
            String setting = config.serverProperties().getOrDefault(GROUP_PROTOCOLS, "classic,consumer,streams");
            List<String> protocols = new ArrayList<>(List.of(setting.split("\\s*,\\s*")));
            PROTOCOL_FEATURES.forEach((feature, protocol) -> {
                if (isOff(feature))
                    protocols.remove(protocol);
            });
            return protocols;
        }

        private boolean isOff(Feature feature) {
            return config.features().getOrDefault(feature, (short) 1) == 0;
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return new LinkedHashMap<>(cluster().brokers());
        }

        @Override
        public Set<Integer> brokerIds() {
            return cluster().brokers().keySet();
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return cluster().brokers().values().stream().map(each -> each.boundPort(clientListener())).toList();
        }

        @Override
        public String bootstrapServers() {
            return cluster().bootstrapServers();
        }

        @Override
        public String clusterId() {
            return broker(0).clusterId();
        }

        @Override
        public ListenerName clientListener() {
            return config.brokerListenerName();
        }

        @Override
        public Type type() {
            return isCombined ? Type.CO_KRAFT : Type.KRAFT;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public String bootstrapControllers() {
            return cluster().bootstrapControllers();
        }

        @Override
        public ListenerName controllerListenerName() {
            return config.controllerListenerName();
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            return cluster().controllers();
        }

        @Override
        public Set<Integer> controllerIds() {
            return cluster().nodes().controllerNodes().keySet();
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }
    }
}
