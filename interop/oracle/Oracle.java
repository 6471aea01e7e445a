// Reads and writes Kafka's messages with Kafka's own generated classes, for test_oracle.py.
//
// One JSON object a line in, one a line out:
//   {"op": "versions", "name": NAME}                            {"first": n, "last": n}, or {}: no such class
//   {"op": "read",  "name": NAME, "version": n, "data": B64}    {"json": {...}, "data": B64 written again,
//                                                                "left": bytes not read}
//   {"op": "write", "name": NAME, "version": n, "json": {...}}  {"data": B64}
//   {"op": "raise", "name": NAME, "version": n, "data": B64, "to": n}
//                                                               {"json": {...}}, what was read in one version
//                                                               shown in another; {} where Kafka refuses that
// What goes wrong answers {"error": "..."}.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Oracle {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message",
        "org.apache.kafka.common.metadata",
        "org.apache.kafka.coordinator.group.generated",
        "org.apache.kafka.coordinator.share.generated",
        "org.apache.kafka.coordinator.transaction.generated",
        "org.apache.kafka.raft.generated",
        "org.apache.kafka.server.log.remote.metadata.storage.generated",
    };
    private static final ObjectMapper MAPPER = new ObjectMapper();

    /** A message class and its two converters. */
    private record Generated(Class<?> type, Method toJson, Method fromJson) {}

    private static final Map<String, Generated> FOUND = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = MAPPER.createObjectNode();
            try {
                answer(MAPPER.readTree(line), answer);
            } catch (Throwable error) {
                Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
                answer.removeAll();
                answer.put("error", String.valueOf(cause));
            }
            out.println(answer);
            out.flush();
        }
    }

    private static void answer(JsonNode question, ObjectNode answer) throws Exception {
        Generated generated = find(question.get("name").asText());
        String operation = question.get("op").asText();
        if (operation.equals("versions")) {
            if (generated != null) {
                answer.put("first", generated.type.getField("LOWEST_SUPPORTED_VERSION").getShort(null));
                answer.put("last", generated.type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null));
            }
            return;
        }
        short version = (short) question.get("version").asInt();
        if (operation.equals("write")) {
            Message message = (Message) generated.fromJson.invoke(null, question.get("json"), version);
            answer.put("data", written(message, version));
            return;
        }
        ByteBuffer data = ByteBuffer.wrap(Base64.getDecoder().decode(question.get("data").asText()));
        Message message = (Message) generated.type.getDeclaredConstructor().newInstance();
        message.read(new ByteBufferAccessor(data), version);
        if (operation.equals("raise")) {
            try {
                short other = (short) question.get("to").asInt();
                answer.set("json", (JsonNode) generated.toJson.invoke(null, message, other));
            } catch (InvocationTargetException refused) {
                answer.removeAll();
            }
            return;
        }
        answer.set("json", (JsonNode) generated.toJson.invoke(null, message, version));
        answer.put("data", written(message, version));
        answer.put("left", data.remaining());
    }

    private static String written(Message message, short version) {
        var cache = new ObjectSerializationCache();
        ByteBuffer data = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(data), cache, version);
        if (data.hasRemaining()) {
            throw new IllegalStateException("size() and write() disagree");
        }
        return Base64.getEncoder().encodeToString(data.array());
    }

    private static Generated find(String name) throws Exception {
        if (!FOUND.containsKey(name)) {
            FOUND.put(name, null);
            for (String prefix : PACKAGES) {
                for (String suffix : new String[] {"", "Data"}) {
                    try {
                        Class<?> type = Class.forName(prefix + "." + name + suffix);
                        Class<?> converter = Class.forName(prefix + "." + name + suffix + "JsonConverter");
                        Method toJson = converter.getMethod("write", type, short.class);
                        Method fromJson = converter.getMethod("read", JsonNode.class, short.class);
                        FOUND.put(name, new Generated(type, toJson, fromJson));
                    } catch (ClassNotFoundException absent) {
                        continue;
                    }
                }
            }
        }
        return FOUND.get(name);
    }
}
