// A producer and a consumer of any Java client from 0.10.2 on, for java_clients.py.
//
//   produce BOOTSTRAP TOPIC CODEC            records from standard input to partition 0; the offset of each
//   consume BOOTSTRAP TOPIC COUNT            the first records of partition 0
//   group BOOTSTRAP TOPIC COUNT GROUP        the next records for a group, which then commits
//
// A record is a line: timestamp, key, value and headers (key=value), separated by spaces. Bytes are in base 64, null
// is "-". A consumed one has its offset before it. What not every release has is looked up: headers came with 0.11,
// poll(Duration) with 2.0, and 4.0 took poll(long) away.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Client {
    private static final long PATIENCE_MS = 30_000;
    private static final PrintStream OUT = new PrintStream(System.out, false);

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        if (arguments[0].equals("produce"))
            produce(settings, arguments[2], arguments[3]);
        else
            consume(settings, arguments[2], Integer.parseInt(arguments[3]), arguments.length > 4 ? arguments[4] : null);
        OUT.flush();
    }

    private static void produce(Properties settings, String topic, String codec) throws Exception {
        settings.put("compression.type", codec);
        settings.put("linger.ms", "20");
        settings.put("max.request.size", "2000000");
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String line = in.readLine(); line != null; line = in.readLine())
                sent.add(producer.send(record(topic, line.split(" ", -1))));
            for (Future<RecordMetadata> each : sent)
                OUT.println(each.get().offset());
        }
    }

    private static void consume(Properties settings, String topic, int count, String group) throws Exception {
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        if (group != null)
            settings.put("group.id", group);
        settings.put("max.poll.records", "30");
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            if (group == null) {
                consumer.assign(Collections.singletonList(partition));
                consumer.seekToBeginning(Collections.singletonList(partition));
            } else {
                consumer.subscribe(Collections.singletonList(topic));
            }
            int seen = 0;
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (seen < count && System.currentTimeMillis() < deadline)
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer))
                    if (seen++ < count)
                        OUT.println(line(record));
            if (group != null)
                consumer.commitSync();
        }
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        Object records;
        try {
            records = KafkaConsumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(500));
        } catch (NoSuchMethodException before) {
            records = KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
        }
        return (ConsumerRecords<byte[], byte[]>) records;
    }

    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(String topic, String[] words) throws Exception {
        Long timestamp = Long.valueOf(words[0]);
        byte[] key = bytes(words[1]);
        byte[] value = bytes(words[2]);
        if (words.length == 3)
            return new ProducerRecord<>(topic, 0, timestamp, key, value);
        Constructor<?> header = Class.forName("org.apache.kafka.common.header.internals.RecordHeader")
            .getConstructor(String.class, byte[].class);
        List<Object> headers = new ArrayList<>();
        for (int i = 3; i < words.length; i++) {
            int at = words[i].indexOf(':');
            headers.add(header.newInstance(
                new String(bytes(words[i].substring(0, at)), "UTF-8"), bytes(words[i].substring(at + 1))));
        }
        return (ProducerRecord<byte[], byte[]>) ProducerRecord.class
            .getConstructor(String.class, Integer.class, Long.class, Object.class, Object.class, Iterable.class)
            .newInstance(topic, 0, timestamp, key, value, headers);
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) throws Exception {
        StringBuilder line = new StringBuilder();
        line.append(record.offset()).append(' ').append(record.timestamp());
        line.append(' ').append(text(record.key())).append(' ').append(text(record.value()));
        Iterable<?> headers;
        try {
            headers = (Iterable<?>) ConsumerRecord.class.getMethod("headers").invoke(record);
        } catch (NoSuchMethodException before) {
            headers = Collections.emptyList();
        }
        for (Object header : headers) {
            Class<?> type = Class.forName("org.apache.kafka.common.header.Header");
            String key = (String) type.getMethod("key").invoke(header);
            line.append(' ').append(text(key.getBytes("UTF-8")));
            line.append(':').append(text((byte[]) type.getMethod("value").invoke(header)));
        }
        return line.toString();
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
