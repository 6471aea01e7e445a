import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/**
 * A member of a share group that takes long over one record, and never accepts it.
 *
 * <p>Arguments: bootstrap servers, group, topic, and the seconds for which it renews the lock of the record.
 * After that it does nothing until it is killed. Each step prints a line: holds and the delivery count,
 * renewed or the name of the error, and silent.
 */
public class ShareHolder {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[1]);
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        long renewing = Long.parseLong(arguments[3]) * 1000;
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties)) {
            consumer.subscribe(List.of(arguments[2]));
            long begun = 0;
            while (begun == 0 || System.currentTimeMillis() < begun + renewing) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    say("holds " + record.deliveryCount().get());
                    begun = begun == 0 ? System.currentTimeMillis() : begun;
                    Thread.sleep(2000);
                    consumer.acknowledge(record, AcknowledgeType.RENEW);
                    for (var result : consumer.commitSync().values()) {
                        say(result.map(error -> error.getClass().getSimpleName()).orElse("renewed"));
                    }
                }
            }
            say("silent");
            Thread.sleep(Long.MAX_VALUE);
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
