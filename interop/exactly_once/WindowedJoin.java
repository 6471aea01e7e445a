// Joins two topics with Kafka Streams, exactly once:
//
//     WindowedJoin BOOTSTRAP APPLICATION STATE_DIR LEFT RIGHT OUTPUT [NAME=VALUE ...]
//
// The values of LEFT are KEY:TEXT, and are first brought to the partition of their key, by a repartition topic. RIGHT has
// its keys. Texts of the same key that are at most WINDOW apart are one record of the output each, (key, left+right).
// It prints its states. SIGTERM closes it.

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

public final class WindowedJoin {
    private static final Duration WINDOW = Duration.ofSeconds(5);

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 8000);
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 100);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        for (String setting : Arrays.copyOfRange(arguments, 6, arguments.length)) {
            String[] nameAndValue = setting.split("=", 2);
            settings.put(nameAndValue[0], nameAndValue[1]);
        }

        Serde<String> text = Serdes.String();
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> left = builder.stream(arguments[3], Consumed.with(text, text))
            .selectKey((key, value) -> value.split(":")[0])
            .mapValues(value -> value.split(":")[1]);
        KStream<String, String> right = builder.stream(arguments[4], Consumed.with(text, text));
        left.join(right, (one, two) -> one + "+" + two,
                JoinWindows.ofTimeDifferenceAndGrace(WINDOW, Duration.ofDays(1)),
                StreamJoined.with(text, text, text).withName("joined"))
            .to(arguments[5], Produced.with(text, text));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println(now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }
}
