// Reads and writes record batches with Kafka's own classes, for test_record_batches.py.
//
// One question a line in, one answer a line out:
//   read BATCH           offset,timestamp,key,value,headers of each record, separated by spaces
//   write CODEC BATCH    the same records in a batch that Kafka builds
// Bytes are in hexadecimal, null is "-"; headers are key:value, separated by semicolons. What Kafka cannot read
// answers "error" and why.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

public class RecordOracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, true);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                byte[] bytes = HEX.parseHex(words[words.length - 1]);
                List<Record> records = read(bytes);
                answer = words[0].equals("read")
                    ? records.stream().map(RecordOracle::show).collect(Collectors.joining(" "))
                    : write(words[1], records, bytes.length);
            } catch (Exception error) {
                answer = "error " + error.toString().replace('\n', ' ');
            }
            out.println(answer);
        }
    }

    private static List<Record> read(byte[] bytes) {
        List<Record> records = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                records.add(record);
            }
        }
        return records;
    }

    private static String write(String codec, List<Record> records, int size) {
        var builder = MemoryRecords.builder(ByteBuffer.allocate(size + 1024), RecordBatch.CURRENT_MAGIC_VALUE,
            Compression.of(codec).build(), TimestampType.CREATE_TIME, 0L);
        for (Record record : records) {
            builder.append(record.timestamp(), record.key(), record.value(), record.headers());
        }
        ByteBuffer batch = builder.build().buffer();
        byte[] bytes = new byte[batch.remaining()];
        batch.get(bytes);
        return HEX.formatHex(bytes);
    }

    private static String show(Record record) {
        String headers = Stream.of(record.headers())
            .map((Header header) -> HEX.formatHex(header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8))
                + ":" + (header.value() == null ? "-" : HEX.formatHex(header.value())))
            .collect(Collectors.joining(";"));
        return record.offset() + "," + record.timestamp() + "," + show(record.key()) + "," + show(record.value())
            + "," + headers;
    }

    private static String show(ByteBuffer bytes) {
        if (bytes == null) {
            return "-";
        }
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        return HEX.formatHex(copy);
    }
}
