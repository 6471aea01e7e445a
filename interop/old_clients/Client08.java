// The producer and the consumers of the 0.8.2 release, for java_clients.py; lines as in Client.java.
//
//   produce BOOTSTRAP TOPIC CODEC           the Java producer
//   consume BOOTSTRAP TOPIC COUNT           the SimpleConsumer, from the earliest offset
//   offsets BOOTSTRAP TOPIC COUNT           where segments start, the latest first, COUNT at most
//   commit BOOTSTRAP TOPIC OFFSET GROUP     commit an offset for a group
//   committed BOOTSTRAP TOPIC 0 GROUP       the offset that the group has committed
//
// The high-level consumer of that release needs ZooKeeper and is left out. Timestamps are -1: there are none.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import kafka.api.ConsumerMetadataRequest;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.cluster.Broker;
import kafka.common.ErrorMapping;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.javaapi.ConsumerMetadataResponse;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetCommitResponse;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.message.ByteBufferMessageSet;
import kafka.message.MessageAndOffset;
import kafka.network.BlockingChannel;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Client08 {
    private static final int TIMEOUT_MS = 30_000;
    private static final int FETCH_BYTES = 1 << 20;
    private static final String CLIENT = "old";
    private static final PrintStream OUT = new PrintStream(System.out, false);

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("produce")) {
            produce(arguments[1], arguments[2], arguments[3]);
        } else {
            String[] address = arguments[1].split(",")[0].split(":");
            SimpleConsumer consumer = consumerOfLeader(address, arguments[2]);
            int number = Integer.parseInt(arguments[3]);
            TopicAndPartition place = new TopicAndPartition(arguments[2], 0);
            switch (arguments[0]) {
                case "consume": consume(consumer, place, number); break;
                case "offsets": for (long each : offsets(consumer, place, -1, number)) OUT.println(each); break;
                case "commit": commit(address, place, number, arguments[4]); break;
                default: committed(address, place, arguments[4]);
            }
            consumer.close();
        }
        OUT.flush();
    }

    private static void produce(String bootstrap, String topic, String codec) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("linger.ms", "20");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            sent.add(producer.send(new ProducerRecord<>(topic, 0, bytes(words[1]), bytes(words[2]))));
        }
        for (Future<RecordMetadata> each : sent)
            OUT.println(each.get().offset());
        producer.close();
    }

    // Any broker tells who leads a partition; a fetch must go to that one.
    private static SimpleConsumer consumerOfLeader(String[] address, String topic) {
        SimpleConsumer any = consumer(address[0], Integer.parseInt(address[1]));
        List<TopicMetadata> metadata = any.send(new TopicMetadataRequest(Collections.singletonList(topic))).topicsMetadata();
        any.close();
        if (metadata.size() != 1)
            throw new IllegalStateException("no metadata");
        for (PartitionMetadata each : metadata.get(0).partitionsMetadata())
            if (each.partitionId() == 0)
                return consumer(each.leader().host(), each.leader().port());
        throw new IllegalStateException("no partition 0");
    }

    private static SimpleConsumer consumer(String host, int port) {
        return new SimpleConsumer(host, port, TIMEOUT_MS, FETCH_BYTES, CLIENT);
    }

    private static void consume(SimpleConsumer consumer, TopicAndPartition place, int count) {
        long offset = offsets(consumer, place, -2, 1)[0];
        int seen = 0;
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (seen < count && System.currentTimeMillis() < deadline) {
            FetchResponse response = consumer.fetch(new FetchRequestBuilder().clientId(CLIENT).maxWait(500).minBytes(1)
                .addFetch(place.topic(), place.partition(), offset, FETCH_BYTES).build());
            if (response.hasError())
                throw new IllegalStateException("error " + response.errorCode(place.topic(), place.partition()));
            ByteBufferMessageSet messages = response.messageSet(place.topic(), place.partition());
            if (messages.sizeInBytes() > 0 && messages.validBytes() == 0)
                throw new IllegalStateException("the message at " + offset + " is too large");
            for (MessageAndOffset each : messages) {
                if (each.offset() < offset)
                    continue;
                each.message().ensureValid();
                if (seen++ < count)
                    OUT.println(each.offset() + " -1 " + text(each.message().key()) + " " + text(each.message().payload()));
                offset = each.nextOffset();
            }
        }
    }

    private static long[] offsets(SimpleConsumer consumer, TopicAndPartition place, long time, int count) {
        OffsetResponse response = consumer.getOffsetsBefore(new OffsetRequest(
            Collections.singletonMap(place, new PartitionOffsetRequestInfo(time, count)), (short) 0, CLIENT));
        if (response.hasError())
            throw new IllegalStateException("error " + response.errorCode(place.topic(), place.partition()));
        return response.offsets(place.topic(), place.partition());
    }

    private static void commit(String[] address, TopicAndPartition place, long offset, String group) throws Exception {
        for (short version = 0; version < 2; version++) {
            BlockingChannel channel = offsetManager(address, group + version, version);
            OffsetAndMetadata committed = new OffsetAndMetadata(offset + version, "by hand", -1L);
            channel.send(new OffsetCommitRequest(
                group + version, Collections.singletonMap(place, committed), 1, CLIENT, version).underlying());
            OffsetCommitResponse response = OffsetCommitResponse.readFrom(channel.receive().buffer());
            channel.disconnect();
            if (response.hasError())
                throw new IllegalStateException("error " + response.errors());
        }
    }

    private static void committed(String[] address, TopicAndPartition place, String group) throws Exception {
        for (short version = 0; version < 2; version++) {
            BlockingChannel channel = offsetManager(address, group + version, version);
            channel.send(new OffsetFetchRequest(
                group + version, Collections.singletonList(place), version, 1, CLIENT).underlying());
            Map<TopicAndPartition, OffsetMetadataAndError> offsets =
                kafka.javaapi.OffsetFetchResponse.readFrom(channel.receive().buffer()).offsets();
            channel.disconnect();
            OUT.println(offsets.get(place).offset());
        }
    }

    /** A connection to the broker that takes the group's offsets: any for version 0, which has them in ZooKeeper. */
    private static BlockingChannel offsetManager(String[] address, String group, short version) throws Exception {
        long end = System.currentTimeMillis() + TIMEOUT_MS;
        while (version > 0) {
            BlockingChannel channel = channel(address);
            channel.send(new ConsumerMetadataRequest(group, ConsumerMetadataRequest.CurrentVersion(), 1, CLIENT));
            ConsumerMetadataResponse response = ConsumerMetadataResponse.readFrom(channel.receive().buffer());
            channel.disconnect();
            if (response.errorCode() == ErrorMapping.NoError()) {
                Broker found = response.coordinator();
                return channel(new String[] {found.host(), Integer.toString(found.port())});
            }
            if (System.currentTimeMillis() > end)
                throw new IllegalStateException("no coordinator: error " + response.errorCode());
            Thread.sleep(100);
        }
        return channel(address);
    }

    private static BlockingChannel channel(String[] address) {
        int unset = BlockingChannel.UseDefaultBufferSize();
        BlockingChannel channel = new BlockingChannel(address[0], Integer.parseInt(address[1]), unset, unset, TIMEOUT_MS);
        channel.connect();
        return channel;
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word);
    }

    private static String text(ByteBuffer buffer) {
        if (buffer == null)
            return "-";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }
}
