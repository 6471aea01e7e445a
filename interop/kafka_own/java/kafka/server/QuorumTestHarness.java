package kafka.server;

import kafka.api.EndToEndAuthorizationTest;
import kafka.integration.KafkaServerTestHarness;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils$;

import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.HarnessCluster;
import org.apache.kafka.common.test.NeedsTheInside;
import org.apache.kafka.common.test.RepeatedKeys;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.MockFaultHandler;
import org.apache.kafka.test.TestUtils;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.util.Properties;
import java.util.stream.Stream;

import scala.Option;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Starts brokers of kafkapy where Apache Kafka's class of this name starts its own.
 *
 * All tests in Scala that start brokers are subclasses of it, and call its methods under the names that Scala gives
 * them. There is no controller: what tests ask of it is asked of a broker. A tool that a test calls, and that ends in
 * a failure, fails the test: it would end the JVM, and the tests after it.
 */
@Tag("integration")
public abstract class QuorumTestHarness implements Logging {
    static {
        RepeatedKeys.install();
    }

    private final QuorumTestHarnessFaultHandlerFactory faults =
        new QuorumTestHarnessFaultHandlerFactory(new MockFaultHandler("quorumTestHarnessFaultHandler"));
    private String logIdent;
    private TestInfo testInfo;
    private HarnessCluster cluster;

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersAll();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersClassicGroupProtocolOnly();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersConsumerGroupProtocolOnly();
    }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    @SuppressWarnings("unchecked")
    public scala.collection.Seq<Properties> kraftControllerConfigs(TestInfo testInfo) {
        return (List<Properties>) (List<?>) Nil$.MODULE$.$colon$colon(new Properties());
    }

    public scala.collection.Seq<SecurityProtocol> extraControllerSecurityProtocols() {
        return empty();
    }

    @SuppressWarnings("unchecked")
    private static <T> Seq<T> empty() {
        return (Seq<T>) (Seq<?>) Nil$.MODULE$;
    }

    public MetadataVersion metadataVersion() {
        return MetadataVersion.latestTesting();
    }

    public QuorumImplementation implementation() {
        throw new NeedsTheInside("QuorumImplementation");
    }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils$.MODULE$.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        Option<GroupProtocol> protocol = maybeGroupProtocolSpecified();
        if (protocol.isEmpty())
            throw new IllegalStateException("the test has no parameter \"groupProtocol\"");
        return protocol.get();
    }

    public ControllerServer controllerServer() {
        return cluster.controller();
    }

    @SuppressWarnings("unchecked")
    public scala.collection.Seq<ControllerServer> controllerServers() {
        return (List<ControllerServer>) (List<?>) Nil$.MODULE$.$colon$colon(controllerServer());
    }

    public QuorumTestHarnessFaultHandlerFactory faultHandlerFactory() {
        return faults;
    }

    public MockFaultHandler faultHandler() {
        return faults.faultHandler();
    }

    @BeforeEach
    public void setUp(TestInfo testInfo) {
        this.testInfo = testInfo;
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("a tool ended with status " + status);
        });
        cluster = new HarnessCluster(formatted(), this instanceof EndToEndAuthorizationTest);
    }

    public void addFormatterSettings(Formatter formatter) {
    }

    /** What kafka-storage would write before the first start: it may have users of SCRAM. */
    private Formatter formatted() {
        File directory = TestUtils.tempDirectory();
        Formatter formatter = new Formatter()
            .setPrintStream(new PrintStream(new ByteArrayOutputStream()))
            .setClusterId(Uuid.randomUuid().toString())
            .setNodeId(1000)
            .addDirectory(directory.getAbsolutePath())
            .setReleaseVersion(metadataVersion())
            .setUnstableFeatureVersionsEnabled(true)
            .setControllerListenerName("CONTROLLER")
            .setMetadataLogDirectory(directory.getAbsolutePath());
        addFormatterSettings(formatter);
        try {
            formatter.run();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        return formatter;
    }

    public KafkaBroker createBroker(
        KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix
    ) {
        boolean alone = this instanceof KafkaServerTestHarness
            && ((KafkaServerTestHarness) this).configs().size() == 1;
        return cluster.broker(config, !alone, startup);
    }

    public Time createBroker$default$2() {
        return Time.SYSTEM;
    }

    public boolean createBroker$default$3() {
        return true;
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    public void shutdownKRaftController() {
        throw new NeedsTheInside("a controller that is shut down");
    }

    public KRaftQuorumImplementation newKRaftQuorum(TestInfo testInfo, Properties overridden) {
        throw new NeedsTheInside("KRaftQuorumImplementation");
    }

    @AfterEach
    public void tearDown() {
        if (cluster != null)
            cluster.close();
        Exit.resetExitProcedure();
        kafka.utils.TestUtils.clearYammerMetrics();
        System.clearProperty("java.security.auth.login.config");
        javax.security.auth.login.Configuration.setConfiguration(null);
    }
}
