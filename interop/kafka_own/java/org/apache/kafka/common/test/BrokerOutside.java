package org.apache.kafka.common.test;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import com.fasterxml.jackson.databind.JsonNode;

import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;

import scala.Option;
import scala.collection.immutable.Set;
import scala.collection.immutable.Set$;

/**
 * A broker of kafkapy, as seen from outside.
 *
 * `server()` stands for it in tests that ask for a BrokerServer: it can be started and stopped, and says what any
 * client could learn.
 */
final class BrokerOutside {
    private final String cluster;
    private final int id;
    private final boolean clustered;
    private final Map<String, Object> settings;
    private final KafkaConfig config;
    private BrokerServer server;

    /** The ports of its listeners in their order, none before its first start: it comes back to them. */
    private final Map<String, Integer> ports = new LinkedHashMap<>();
    /** The users of SCRAM that the cluster has from the beginning. */
    private final List<UserScramCredentialRecord> users;
    private boolean running = false;
    private boolean showsLogins = false;

    BrokerOutside(String cluster, int id, boolean clustered, Map<String, Object> settings, KafkaConfig config) {
        this(cluster, id, clustered, settings, config, List.of());
    }

    BrokerOutside(
        String cluster, int id, boolean clustered, Map<String, Object> settings, KafkaConfig config,
        List<UserScramCredentialRecord> users
    ) {
        this.cluster = cluster;
        this.id = id;
        this.clustered = clustered;
        this.settings = settings;
        this.config = config;
        this.users = users;
    }

    /** Has the broker's metrics be those of logins. */
    void showLogins() {
        showsLogins = true;
    }

    /** What stands for it, made when a test first asks for it. */
    BrokerServer server() {
        if (server == null)
            server = newServer();
        return server;
    }

    private BrokerServer newServer() {
        Outside.Answer metadata = Outside.part(KRaftMetadataCache.class, Map.of(
            "numPartitions", call -> Optional.of(partitionsOf(call.getArgument(0))).filter(number -> number > 0),
            "getAliveBrokerNodes", call -> alive(call.getArgument(0)),
            "getAliveBrokerNode", call -> alive(call.getArgument(1)).stream()
                .filter(node -> node.id() == call.<Integer>getArgument(0)).findFirst(),
            "hasAliveBroker", call -> isAlive(call.getArgument(0)),
            "contains", call -> partitionsOf(call.getArgument(0)) > 0,
            "getLeaderAndIsr", call -> leaderAndIsr(call.getArgument(0), call.getArgument(1)),
            "getTopicId", call -> topicIds().getOrDefault(call.<String>getArgument(0), Uuid.ZERO_UUID),
            "getPartitionLeaderEndpoint", call -> leaderNode(
                call.getArgument(0), call.getArgument(1), call.getArgument(2)),
            "getPartitionReplicaEndpoints", call -> replicaNodes(call.getArgument(0), call.getArgument(1)),
            "topicConfig", call -> topicConfig(call.getArgument(0))
        ));
        QuotasOutside quotas = new QuotasOutside(cluster, id);
        Outside.Answer socket = Outside.part(SocketServer.class, Map.of(
            "boundPort", call -> port(call.getArgument(0)),
            "connectionQuotas", call -> quotas.ofAddresses()
        ));
        Outside.Answer groups = Outside.part(GroupCoordinator.class, Map.of(
            "groupMetadataTopicConfigs", call -> new Properties(),
            "groupConfig", call -> Optional.of(groupSettings(call.getArgument(0)))
        ));
        Outside.Answer groupSettings = Outside.part(GroupConfigManager.class, Map.of(
            "groupConfig", call -> Optional.of(groupSettings(call.getArgument(0)))
        ));
        Outside.Answer logs = Outside.part(LogManager.class, Map.of(
            "getLog$default$2", call -> false,  // a future log or not, if the test does not say
            "getLog", call -> Option.when(hasDirectory(call.getArgument(0)), () -> log(call.getArgument(0)))
        ));
        Outside.Answer replicas = Outside.part(ReplicaManager.class, Map.of(
            "onlinePartition", call -> Option.when(isOnline(call.getArgument(0)), () -> partition(call.getArgument(0))),
            "localLog", call -> Option.when(isOnline(call.getArgument(0)), () -> log(call.getArgument(0))),
            "checkpointHighWatermarks", call -> {
                KafkapyBrokers.ask("checkpoint", "directory", cluster, "number", id);
                return null;
            },
            "localLogOrException", call -> log(call.getArgument(0)),
            "logManager", logs
        ));
        // Tests wait until its loader has read what a controller wrote; without a loader there is nothing to wait for.
        Map<String, Outside.Answer> noLoader = new HashMap<>();
        noLoader.put("loader", call -> null);
        Outside.Answer shared = Outside.part(SharedServer.class, noLoader);

        Map<String, Outside.Answer> answers = new HashMap<>();
        if (showsLogins)
            answers.put("metrics", call -> LoginsOutside.metrics(cluster, id));
        answers.put("config", call -> config);
        answers.put("metadataCache", metadata);
        answers.put("socketServer", socket);
        answers.put("groupCoordinator", groups);
        answers.put("quotaManagers", call -> quotas.managers());
        answers.put("groupConfigManager", groupSettings);
        answers.put("sharedServer", shared);
        answers.put("logManager", logs);
        answers.put("replicaManager", replicas);
        answers.put("boundPort", call -> port(call.getArgument(0)));
        Outside.Answer acls = call -> Option.when(hasAcls(), () -> new AclsOutside(cluster, id).plugin());
        Outside.Answer apis = Outside.part(KafkaApis.class, Map.of(
            "authorizerPlugin", acls,
            "metadataCache", metadata,
            "quotas", call -> quotas.managers(),
            "clusterId", call -> clusterId()
        ));
        Outside.Answer tokens = Outside.part(DelegationTokenCache.class, Map.of("tokens", call -> tokens()));
        answers.put("authorizerPlugin", acls);
        answers.put("dataPlaneRequestProcessor", apis);
        answers.put("credentialProvider", call -> UsersOutside.provider(cluster, id));
        answers.put("tokenCache", tokens);
        answers.put("brokerState", call -> running ? BrokerState.RUNNING : BrokerState.NOT_RUNNING);
        answers.put("isShutdown", call -> !running);
        answers.put("clusterId", call -> clusterId());
        answers.put("startup", call -> {
            start();
            return null;
        });
        answers.put("shutdown", call -> {
            stop();
            return null;
        });
        answers.put("awaitShutdown", call -> null);
        // A broker that has started serves clients.
        Outside.Answer lifecycle = Outside.part(BrokerLifecycleManager.class, Map.of(
            "initialUnfenceFuture", call -> CompletableFuture.completedFuture(null)
        ));
        answers.put("lifecycleManager", lifecycle);
        return Outside.of(BrokerServer.class, answers);
    }

    private String clusterId() {
        return KafkapyBrokers.ask("cluster_id", "directory", cluster).get("cluster_id").asText();
    }

    private GroupConfig groupSettings(String group) {
        JsonNode settings = KafkapyBrokers.ask("group", "directory", cluster, "number", id, "group", group);
        int timeout = settings.get("session_timeout_ms").asInt();
        GroupConfig config = Outside.of(GroupConfig.class, Map.of("consumerSessionTimeoutMs", call -> timeout));
        Outside.set(config, "consumerSessionTimeoutMs", timeout);
        Outside.set(config, "shareRecordLockDurationMs", settings.get("lock_ms").asInt());
        return config;
    }

    private Partition partition(TopicPartition partition) {
        return Outside.of(Partition.class, Map.of(
            "leaderIdIfLocal", call -> Option.when(leads(partition), () -> id),
            "leaderLogIfLocal", call -> Option.when(leads(partition), () -> log(partition)),
            "leaderReplicaIdOpt", call -> leaderAndIsr(partition.topic(), partition.partition())
                .map(state -> Option.<Object>apply(state.leader())).orElse(Option.empty()),
            "inSyncReplicaIds", call -> inSync(partition),
            "getLeaderEpoch", call -> partitionState(partition.topic(), partition.partition()).get("epoch").asInt()
        ));
    }

    private Set<Object> inSync(TopicPartition partition) {
        Set<Object> ids = Set$.MODULE$.empty();
        for (JsonNode replica : partitionState(partition.topic(), partition.partition()).path("isr"))
            ids = ids.$plus(replica.asInt());
        return ids;
    }

    /** Its log: what it answers is asked of the broker each time. */
    private UnifiedLog log(TopicPartition partition) {
        ProducerStateManager producers = Outside.of(
            ProducerStateManager.class, Map.of("activeProducers", call -> producers(partition)));
        return Outside.of(UnifiedLog.class, Map.of(
            "producerStateManager", call -> producers,
            "config", call -> LogConfig.fromProps(config.extractLogConfigMap(), topicConfig(partition.topic())),
            "dir", call -> new File(logState(partition).get("directory").asText()),
            "logStartOffset", call -> logState(partition).get("start").asLong(),
            "logEndOffset", call -> logState(partition).get("end").asLong(),
            "highWatermark", call -> logState(partition).get("high_watermark").asLong(),
            "size", call -> logState(partition).get("size").asLong()
        ));
    }

    private Map<Long, ProducerStateEntry> producers(TopicPartition partition) {
        Map<Long, ProducerStateEntry> producers = new HashMap<>();
        for (JsonNode each : KafkapyBrokers.ask("producers", "directory", cluster, "number", id,
                "topic", partition.topic(), "partition", partition.partition()).get("producers")) {
            long began = each.get(4).asLong();
            producers.put(each.get(0).asLong(), new ProducerStateEntry(
                each.get(0).asLong(), (short) each.get(1).asInt(), each.get(2).asInt(), each.get(3).asLong(),
                began < 0 ? OptionalLong.empty() : OptionalLong.of(began)));
        }
        return producers;
    }

    private JsonNode logState(TopicPartition partition) {
        return KafkapyBrokers.ask("log", "directory", cluster, "number", id,
            "topic", partition.topic(), "partition", partition.partition());
    }

    private boolean isOnline(TopicPartition partition) {
        return running && hasDirectory(partition);
    }

    private boolean leads(TopicPartition partition) {
        return leaderAndIsr(partition.topic(), partition.partition()).filter(state -> state.leader() == id).isPresent();
    }

    private boolean hasDirectory(TopicPartition partition) {
        return config.logDirs().stream().anyMatch(directory -> new File(directory, partition.toString()).exists());
    }

    private boolean hasAcls() {
        return !String.valueOf(settings.getOrDefault("authorizer.class.name", "")).isEmpty();
    }

    /** The port of its first listener. */
    int port() {
        return ports.values().iterator().next();
    }

    private int port(ListenerName listener) {
        return Optional.ofNullable(ports.get(listener.value()))
            .orElseThrow(() -> new NeedsTheInside("the port of " + listener.value()));
    }

    boolean isRunning() {
        return running;
    }

    void start() {
        if (running)
            return;
        SecuritySettings security = new SecuritySettings(settings);
        Map<String, String> texts = security.texts();
        texts.computeIfPresent("listeners", (name, value) -> sameListeners(value));
        JsonNode answer = KafkapyBrokers.ask(
            "start", "directory", cluster, "number", id, "clustered", clustered, "settings", texts,
            "principals", security.principals(), "users", users.stream().map(UsersOutside::fields).toList(),
            "kerberos", System.getProperty("java.security.krb5.conf", ""));
        answer.get("ports").fields().forEachRemaining(each -> ports.put(each.getKey(), each.getValue().asInt()));
        running = true;
    }

    /** The listeners with the ports that they had before. */
    private String sameListeners(String listeners) {
        List<String> same = new ArrayList<>();
        for (String each : listeners.split(",")) {
            int had = ports.getOrDefault(each.trim().split("://")[0], 0);
            same.add(each.trim().replaceFirst(":0$", ":" + had));
        }
        return String.join(",", same);
    }

    void stop() {
        KafkapyBrokers.ask("stop", "directory", cluster, "number", id);
        running = false;
    }

    /** The number of a topic's partitions that this broker knows, 0 without the topic. */
    int partitionsOf(String topic) {
        return running ? topics().path(topic).path("partitions").size() : 0;
    }

    /** The ids of the topics that this broker knows. */
    Map<String, Uuid> topicIds() {
        Map<String, Uuid> ids = new HashMap<>();
        topics().fields().forEachRemaining(topic ->
            ids.put(topic.getKey(), Uuid.fromString(topic.getValue().get("id").asText())));
        return ids;
    }

    /** The running brokers that this broker knows, by an address of a listener. */
    private List<Node> alive(ListenerName listener) {
        List<Node> nodes = new ArrayList<>();
        for (JsonNode each : alive())
            if (each.get("listener").asText().equals(listener.value()))
                nodes.add(new Node(each.get("id").asInt(), each.get("host").asText(), each.get("port").asInt()));
        return nodes;
    }

    private Optional<Node> leaderNode(String topic, int partition, ListenerName listener) {
        return leaderAndIsr(topic, partition).map(state -> alive(listener).stream()
            .filter(node -> node.id() == state.leader()).findFirst().orElse(Node.noNode()));
    }

    /** The running replicas of a partition, by id. */
    private Map<Integer, Node> replicaNodes(TopicPartition partition, ListenerName listener) {
        Map<Integer, Node> nodes = new HashMap<>();
        for (JsonNode replica : partitionState(partition.topic(), partition.partition()).path("replicas"))
            alive(listener).stream().filter(node -> node.id() == replica.asInt())
                .forEach(node -> nodes.put(node.id(), node));
        return nodes;
    }

    private Properties topicConfig(String topic) {
        Properties settings = new Properties();
        topics().path(topic).path("configs").fields().forEachRemaining(setting ->
            settings.setProperty(setting.getKey(), setting.getValue().asText()));
        return settings;
    }

    private boolean isAlive(int broker) {
        for (JsonNode each : alive())
            if (each.get("id").asInt() == broker)
                return true;
        return false;
    }

    /** The addresses of the running brokers that this broker knows. */
    private Iterable<JsonNode> alive() {
        return running ? KafkapyBrokers.ask("alive", "directory", cluster, "number", id).get("alive") : List.of();
    }

    /** The delegation tokens that this broker knows: tests count them. */
    private List<TokenInformation> tokens() {
        List<TokenInformation> tokens = new ArrayList<>();
        for (JsonNode token : KafkapyBrokers.ask("tokens", "directory", cluster, "number", id).get("tokens"))
            tokens.add(Outside.of(TokenInformation.class, Map.of("tokenId", call -> token.asText())));
        return tokens;
    }

    private JsonNode topics() {
        return KafkapyBrokers.ask("topics", "directory", cluster, "number", id);
    }

    /** What this broker knows of a partition, a missing node without the partition. */
    private JsonNode partitionState(String topic, int partition) {
        return topics().path(topic).path("partitions").path(partition);
    }

    private Optional<LeaderAndIsr> leaderAndIsr(String topic, int partition) {
        JsonNode state = partitionState(topic, partition);
        if (state.isMissingNode())
            return Optional.empty();
        List<Integer> isr = new ArrayList<>();
        state.get("isr").forEach(replica -> isr.add(replica.asInt()));
        return Optional.of(new LeaderAndIsr(state.get("leader").asInt(), isr));
    }
}
