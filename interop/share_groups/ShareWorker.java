import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/**
 * A member of a share group that acknowledges each record for itself.
 *
 * <p>Records are numbers. At its first delivery a multiple of 7 is released. A multiple of 11 is rejected, and
 * every other record accepted. A line is printed for each record: a mark, partition, offset, delivery count,
 * value, and what is said of it. The mark is ? before that is committed, and ! after it. The worker ends when
 * there is something in its standard input.
 */
public class ShareWorker {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[1]);
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("max.poll.records", "40");
        for (int index = 3; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties)) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.in.available() == 0) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                StringBuilder lines = new StringBuilder();
                for (ConsumerRecord<String, String> record : records) {
                    int number = Integer.parseInt(record.value());
                    short count = record.deliveryCount().get();
                    AcknowledgeType said = AcknowledgeType.ACCEPT;
                    if (number % 7 == 0 && count == 1) {
                        said = AcknowledgeType.RELEASE;
                    } else if (number % 11 == 0) {
                        said = AcknowledgeType.REJECT;
                    }
                    consumer.acknowledge(record, said);
                    lines.append("? ").append(record.partition()).append(' ').append(record.offset()).append(' ');
                    lines.append(count).append(' ').append(number).append(' ').append(said).append('\n');
                }
                System.out.print(lines);
                System.out.flush();
                boolean stored = !records.isEmpty();
                for (var result : consumer.commitSync().values()) {
                    stored &= result.isEmpty();
                }
                if (stored) {
                    System.out.print(lines.toString().replace('?', '!'));
                    System.out.flush();
                } else if (!records.isEmpty()) {
                    System.err.println("not stored: " + records.count());
                }
            }
        }
    }
}
