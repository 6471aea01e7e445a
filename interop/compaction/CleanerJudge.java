import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's own log cleaner on the directory of one partition.
 *
 * clean DIR MAP_BYTES SETTINGS NOW_MS ...   compacts all that is dirty at each of these times, and says what is left
 * read DIR MAP_BYTES SETTINGS               says what is in it
 *
 * SETTINGS: name=value, with semicolons in between. For each time a line "pass", then a line for each batch: first
 * and last offset, attributes, delete horizon (-1 for none), max timestamp, producer id, epoch, first sequence, and
 * offset:timestamp:key size:value size of each record.
 */
public class CleanerJudge {
    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Map<String, String> settings = new HashMap<>();
        for (String setting : arguments[3].split(";")) {
            String[] words = setting.split("=", 2);
            settings.put(words[0], words[1]);
        }
        UnifiedLog log = UnifiedLog.create(
            new File(arguments[1]), new LogConfig(settings), 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            Integer.MAX_VALUE, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000,
            new LogDirFailureChannel(1), true, Optional.of(Uuid.fromString("AAECAwQFBgcICQoLDA0ODw")));
        log.updateHighWatermark(log.logEndOffset());
        SkimpyOffsetMap map = new SkimpyOffsetMap(Integer.parseInt(arguments[2]));
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        long dirty = log.logStartOffset();
        if (arguments[0].equals("read"))
            print(log);
        for (int i = 4; i < arguments.length; i++) {
            dirty = log.logStartOffset();
            while (true) {
                long end = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
                LogToClean toClean = new LogToClean(log, dirty, end, false);
                if (dirty >= toClean.firstUncleanableOffset())
                    break;
                Cleaner cleaner = new Cleaner(0, map, 1 << 20, 1 << 20, 0.9, throttler, Time.SYSTEM, partition -> { });
                dirty = cleaner.doClean(toClean, Long.parseLong(arguments[i])).getKey();
            }
            print(log);
        }
        log.close();
        scheduler.shutdown();
    }

    private static void print(UnifiedLog log) throws Exception {
        System.out.println("pass");
        for (LogSegment segment : log.logSegments()) {
            for (RecordBatch batch : segment.log().batches()) {
                batch.ensureValid();
                List<String> records = new ArrayList<>();
                for (Record record : batch)
                    records.add(record.offset() + ":" + record.timestamp() + ":" + record.keySize() + ":" + record.valueSize());
                System.out.println(String.join(" ", List.of(
                    "" + batch.baseOffset(), "" + batch.lastOffset(),
                    "" + (batch.compressionType().id + (batch.timestampType().id << 3) + (batch.isTransactional() ? 16 : 0)
                        + (batch.isControlBatch() ? 32 : 0)),
                    "" + batch.deleteHorizonMs().orElse(-1L), "" + batch.maxTimestamp(), "" + batch.producerId(),
                    "" + batch.producerEpoch(), "" + batch.baseSequence(), String.join(",", records))));
            }
        }
    }
}
