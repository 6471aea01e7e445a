import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's own log of one partition.
 *
 * write DIR BATCHES SETTING=VALUE ...   appends the batches of a file and closes the log
 * read DIR clean|unclean                opens a log and says what is in it
 *
 * BATCHES: for each append an epoch (int32), 1 for a coordinator's (int8), a length (int32), and the batch.
 */
public class LogJudge {
    private static final Uuid TOPIC_ID = Uuid.fromString("AAECAwQFBgcICQoLDA0ODw");

    private static final short TRANSACTION_VERSION = 0;

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        try {
            if (arguments[0].equals("write"))
                write(arguments, scheduler);
            else
                read(new File(arguments[1]), arguments[2].equals("clean"), scheduler);
        } finally {
            scheduler.shutdown();
        }
    }

    private static UnifiedLog open(File folder, Map<String, String> settings, boolean clean, KafkaScheduler scheduler)
            throws Exception {
        return UnifiedLog.create(
            folder, new LogConfig(settings), 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM, 60_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000, new LogDirFailureChannel(1), clean,
            Optional.of(TOPIC_ID));
    }

    private static void write(String[] arguments, KafkaScheduler scheduler) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (int i = 3; i < arguments.length; i++) {
            String[] words = arguments[i].split("=", 2);
            settings.put(words[0], words[1]);
        }
        UnifiedLog log = open(new File(arguments[1]), settings, true, scheduler);
        try (DataInputStream in = new DataInputStream(new FileInputStream(arguments[2]))) {
            while (in.available() > 0) {
                int epoch = in.readInt();
                AppendOrigin origin = in.readByte() == 1 ? AppendOrigin.COORDINATOR : AppendOrigin.CLIENT;
                byte[] batch = in.readNBytes(in.readInt());
                log.appendAsLeader(
                    MemoryRecords.readableRecords(ByteBuffer.wrap(batch)), epoch, origin, RequestLocal.noCaching(),
                    VerificationGuard.SENTINEL, TRANSACTION_VERSION);
            }
        }
        log.flush(true);
        log.close();
    }

    private static void read(File folder, boolean clean, KafkaScheduler scheduler) throws Exception {
        UnifiedLog log = open(folder, new HashMap<>(), clean, scheduler);
        int batches = 0;
        int records = 0;
        for (LogSegment segment : log.logSegments()) {
            for (RecordBatch batch : segment.log().batches()) {
                batch.ensureValid();
                batches++;
                for (Record record : batch) {
                    record.ensureValid();
                    records++;
                }
            }
        }
        StringBuilder epochs = new StringBuilder();
        log.leaderEpochCache().epochEntries().forEach(
            entry -> epochs.append(epochs.length() == 0 ? "" : ",").append("[" + entry.epoch() + "," + entry.startOffset() + "]"));
        System.out.printf(
            "{\"start\":%d,\"end\":%d,\"segments\":%d,\"batches\":%d,\"records\":%d,\"epochs\":[%s],\"topic_id\":\"%s\","
                + "\"producers\":\"%s\"}%n",
            log.logStartOffset(), log.logEndOffset(), log.numberOfSegments(), batches, records, epochs,
            log.topicId().orElse(Uuid.ZERO_UUID), new TreeMap<>(log.activeProducersWithLastSequence()));
        log.close();
    }
}
