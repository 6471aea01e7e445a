package org.apache.kafka.common.test;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The process in which kafkapy's brokers run (brokers.py), one for all tests of this JVM.
 *
 * The properties kafkapy.command and kafkapy.output say how to start it, and where its output goes.
 */
final class KafkapyBrokers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static KafkapyBrokers started;

    private final Writer commands;
    private final BufferedReader answers;

    private KafkapyBrokers() throws IOException {
        ProcessBuilder builder = new ProcessBuilder(List.of(System.getProperty("kafkapy.command").split("\n")));
        builder.redirectError(ProcessBuilder.Redirect.appendTo(new File(System.getProperty("kafkapy.output"))));
        Process process = builder.start();
        commands = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    }

    /** Sends a command; `fields` are names and values in turn. */
    static synchronized JsonNode ask(String command, Object... fields) {
        try {
            if (started == null)
                started = new KafkapyBrokers();
            Map<String, Object> request = new TreeMap<>(Map.of("command", command));
            for (int i = 0; i < fields.length; i += 2)
                request.put((String) fields[i], fields[i + 1]);
            started.commands.write(JSON.writeValueAsString(request) + "\n");
            started.commands.flush();
            String answer = started.answers.readLine();
            if (answer == null)
                throw new IllegalStateException("the process of kafkapy's brokers has ended");
            JsonNode read = JSON.readTree(answer);
            if (read.has("error"))
                throw new IllegalStateException(read.get("error").asText());
            return read;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
