import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Lets a transaction take too long, aborts it, and commits the next one with the same producer.
 *
 * Arguments: bootstrap servers, topic. Only "next" is committed.
 */
public class LateTransaction {
    private static final long PATIENCE_MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1]);
        settings.put("transaction.timeout.ms", 1_000);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            long end = System.currentTimeMillis() + PATIENCE_MS;
            try {
                while (System.currentTimeMillis() < end) {
                    producer.send(new ProducerRecord<>(arguments[1], 0, null, "late")).get();
                    Thread.sleep(200);
                }
                throw new IllegalStateException("the transaction has not timed out");
            } catch (ExecutionException expected) {
                System.out.println(expected.getCause().getClass().getSimpleName());
            }
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(arguments[1], 0, null, "next"));
            producer.commitTransaction();
        }
        System.out.println("done");
    }
}
