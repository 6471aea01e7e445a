// Counts words with Kafka Streams, exactly once:
//
//     WordCount BOOTSTRAP APPLICATION STATE_DIR INPUT OUTPUT [NAME=VALUE ...]
//
// Each word of the input is one record of the output, (word, how often it was there so far), because nothing is
// cached: a reader of what is committed sees each count of each word once, in order. It prints its states and, if it
// has an application.server, how many active and standby partitions the clients of the application have, whenever
// that changes. SIGTERM closes it.

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public final class WordCount {
    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 8000);
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 100);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        for (String setting : Arrays.copyOfRange(arguments, 5, arguments.length)) {
            String[] nameAndValue = setting.split("=", 2);
            settings.put(nameAndValue[0], nameAndValue[1]);
        }

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[3], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(arguments[4], Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println(now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        if (settings.containsKey(StreamsConfig.APPLICATION_SERVER_CONFIG)) {
            showPartitions(streams);
        }
    }

    private static void showPartitions(KafkaStreams streams) throws InterruptedException {
        String shown = "";
        while (streams.state() == KafkaStreams.State.CREATED || streams.state().isRunningOrRebalancing()) {
            TreeMap<String, String> found = new TreeMap<>();
            try {
                for (StreamsMetadata each : streams.metadataForAllStreamsClients()) {
                    int active = each.topicPartitions().size();
                    found.put(each.host(), active + "+" + each.standbyTopicPartitions().size());
                }
            } catch (IllegalStateException closing) {
                return;
            }
            if (!found.toString().equals(shown)) {
                shown = found.toString();
                System.out.println("partitions " + shown);
            }
            Thread.sleep(100);
        }
    }
}
