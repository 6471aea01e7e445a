import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;

/**
 * Makes transactions, of which every third is aborted, and fences the producer before itself.
 *
 * Arguments: bootstrap servers, topic, partitions, group, transactions. Transaction n writes "n-partition" to
 * each partition and commits offset n of partition 0 for the group.
 */
public class Transactions {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[4]);
        KafkaProducer<String, String> zombie = producer(arguments[0], topic);
        zombie.initTransactions();
        zombie.beginTransaction();
        zombie.send(new ProducerRecord<>(topic, 0, null, "zombie")).get();

        KafkaProducer<String, String> producer = producer(arguments[0], topic);
        producer.initTransactions();
        try {
            zombie.commitTransaction();
            throw new IllegalStateException("the zombie has committed");
        } catch (ProducerFencedException | InvalidProducerEpochException expected) {
            System.out.println("fenced");
        }
        zombie.close();

        for (int n = 0; n < count; n++) {
            producer.beginTransaction();
            for (int partition = 0; partition < partitions; partition++) {
                producer.send(new ProducerRecord<>(topic, partition, null, n + "-" + partition));
            }
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(n)),
                new ConsumerGroupMetadata(arguments[3]));
            if (n % 3 == 2) {
                producer.flush(); // or the records are never sent
                producer.abortTransaction();
            } else {
                producer.commitTransaction();
            }
        }
        producer.close();
        System.out.println("done");
    }

    private static KafkaProducer<String, String> producer(String servers, String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", id);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(settings);
    }
}
