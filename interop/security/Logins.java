import java.io.FileInputStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Arguments are pairs of a file with client settings and a topic. For each, a record is written and read. */
public class Logins {
    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < arguments.length; i += 2) {
            System.out.println(arguments[i + 1] + "\t" + roundTrip(arguments[i], arguments[i + 1]));
        }
    }

    private static String roundTrip(String file, String topic) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream input = new FileInputStream(file)) {
            settings.load(input);
        }
        String string = "org.apache.kafka.common.serialization.String";
        settings.putAll(Map.of(
            "key.serializer", string + "Serializer", "value.serializer", string + "Serializer",
            "key.deserializer", string + "Deserializer", "value.deserializer", string + "Deserializer",
            "auto.offset.reset", "earliest", "max.block.ms", "20000", "delivery.timeout.ms", "20000",
            "request.timeout.ms", "10000"));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.send(new ProducerRecord<>(topic, "java")).get();
        } catch (Exception error) {
            error.printStackTrace();
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return cause.getClass().getSimpleName();
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            long end = System.currentTimeMillis() + 20000;
            while (System.currentTimeMillis() < end) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                if (!records.isEmpty()) {
                    return records.iterator().next().value();
                }
            }
            return "nothing";
        }
    }
}
