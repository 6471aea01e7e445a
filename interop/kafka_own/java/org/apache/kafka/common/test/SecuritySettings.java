package org.apache.kafka.common.test;

import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.common.security.auth.PlaintextAuthenticationContext;

import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.URL;
import java.net.URLConnection;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

import javax.security.auth.login.AppConfigurationEntry;

/**
 * The settings of a test in the forms that kafkapy takes.
 *
 * Keystores of Java become PEM files, sections of the JVM's JAAS file become settings of the listeners, and what a
 * principal builder, a class of Java, names the clients of a listener is told to the brokers.
 */
final class SecuritySettings {
    private static final String JAAS = ".sasl.jaas.config";
    private static final String KEY_SET = "sasl.oauthbearer.jwks.endpoint.url";
    private static final String TOKEN = "sasl.oauthbearer.token.endpoint.url";
    private static final String BUILDER = "principal.builder.class";
    private static final Map<String, String> LOGIN_MODULES = Map.of(
        "PLAIN", "PlainLoginModule",
        "SCRAM-SHA-256", "ScramLoginModule",
        "SCRAM-SHA-512", "ScramLoginModule",
        "OAUTHBEARER", "OAuthBearerLoginModule",
        "GSSAPI", "Krb5LoginModule"
    );
    /** The principal builders that look at a certificate, as rules of ssl.principal.mapping.rules. */
    private static final Map<String, String> CERTIFICATE_RULES = Map.of(
        "kafka.api.SslEndToEndAuthorizationTest$TestPrincipalBuilder",
        "RULE:^O=A server,CN=.*$/server/,RULE:^O=A .*,CN=super-user$/server/,DEFAULT"
    );

    private final Map<String, String> texts = new TreeMap<>();
    private final Map<String, String> principals = new TreeMap<>();

    SecuritySettings(Map<String, ?> settings) {
        settings.forEach((name, value) -> {
            if (value != null)
                texts.put(name, text(value));
        });
        try {
            convertKeystores();
            askOAuthServer();
            addLogins();
            replacePrincipalBuilders();
        } catch (IOException | GeneralSecurityException | ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    Map<String, String> texts() {
        return texts;
    }

    /** The principals of the clients of each listener without logins and certificates, if the test names them. */
    Map<String, String> principals() {
        return principals;
    }

    private static String text(Object value) {
        if (value instanceof Password)
            return ((Password) value).value();
        if (value instanceof Class<?>)
            return ((Class<?>) value).getName();
        if (value instanceof List<?>)
            return String.join(",", ((List<?>) value).stream().map(String::valueOf).toList());
        return String.valueOf(value);
    }

    private void convertKeystores() throws IOException, GeneralSecurityException {
        for (String store : List.of("ssl.keystore", "ssl.truststore"))
            for (String name : List.copyOf(texts.keySet()))
                if (name.endsWith(store + ".location"))
                    convertKeystore(name.substring(0, name.length() - (store + ".location").length()), store);
    }

    private void convertKeystore(String prefix, String store) throws IOException, GeneralSecurityException {
        String type = texts.getOrDefault(prefix + store + ".type", "JKS");
        File file = new File(texts.get(prefix + store + ".location"));
        if (type.equals("PEM") || !file.exists())
            return;
        // A listener's own store may have the password of all; the names of listeners' settings come first.
        String common = texts.get(store + ".password");
        String own = texts.remove(prefix + store + ".password");
        String password = own == null ? common : own;
        KeyStore keys = KeyStore.getInstance(type);
        try (InputStream in = new FileInputStream(file)) {
            keys.load(in, password == null ? null : password.toCharArray());
        }
        String commonKeyPassword = texts.getOrDefault("ssl.key.password", password);
        String keyPassword = texts.getOrDefault(prefix + "ssl.key.password", commonKeyPassword);
        if (store.equals("ssl.keystore"))
            texts.remove(prefix + "ssl.key.password");
        File pem = File.createTempFile("kafkapy-", ".pem");
        pem.deleteOnExit();
        Files.write(pem.toPath(), pem(keys, keyPassword));
        texts.put(prefix + store + ".location", pem.getAbsolutePath());
        texts.put(prefix + store + ".type", "PEM");
    }

    private static byte[] pem(KeyStore keys, String password) throws IOException, GeneralSecurityException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (String alias : Collections.list(keys.aliases())) {
            if (keys.isKeyEntry(alias)) {
                Key key = keys.getKey(alias, password.toCharArray());
                out.write(block("PRIVATE KEY", key.getEncoded()));
                for (Certificate each : keys.getCertificateChain(alias))
                    out.write(block("CERTIFICATE", each.getEncoded()));
            } else {
                out.write(block("CERTIFICATE", keys.getCertificate(alias).getEncoded()));
            }
        }
        return out.toByteArray();
    }

    private static byte[] block(String kind, byte[] content) {
        String lines = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
        return ("-----BEGIN " + kind + "-----\n" + lines + "\n-----END " + kind + "-----\n")
            .getBytes(StandardCharsets.US_ASCII);
    }

    /**
     * Makes files of what an OAuth server of the test gives: the set of its keys, and a token for brokers.
     *
     * kafkapy asks no server without TLS for keys, and none for tokens.
     */
    private void askOAuthServer() throws IOException {
        for (String name : List.copyOf(texts.keySet())) {
            String url = texts.get(name);
            if (!name.endsWith(KEY_SET) || !url.startsWith("http:"))
                continue;
            texts.put(name, file(new URL(url).openStream().readAllBytes()));
            URLConnection token = new URL(url.replaceFirst("/jwks$", "/token")).openConnection();
            token.setDoOutput(true);
            token.getOutputStream().write(
                "grant_type=client_credentials&client_id=broker&client_secret=of-broker".getBytes(StandardCharsets.US_ASCII));
            String answer = new ObjectMapper().readTree(token.getInputStream()).get("access_token").asText();
            texts.put(TOKEN, file(answer.getBytes(StandardCharsets.US_ASCII)));
        }
    }

    private static String file(byte[] content) throws IOException {
        File file = File.createTempFile("kafkapy-", ".txt");
        file.deleteOnExit();
        Files.write(file.toPath(), content);
        return "file://" + file.getAbsolutePath();
    }

    private List<String> listeners() {
        List<String> names = new ArrayList<>();
        for (String each : texts.get("listeners").split(","))
            names.add(each.trim().split("://")[0]);
        return names;
    }

    private String protocolOf(String listener) {
        for (String each : texts.getOrDefault("listener.security.protocol.map", "").split(","))
            if (each.trim().startsWith(listener + ":"))
                return each.trim().substring(listener.length() + 1);
        return listener;
    }

    private void addLogins() {
        for (String listener : listeners()) {
            if (!protocolOf(listener).startsWith("SASL"))
                continue;
            String prefix = prefix(listener);
            String mechanisms = texts.getOrDefault(
                prefix + "sasl.enabled.mechanisms", texts.getOrDefault("sasl.enabled.mechanisms", "GSSAPI"));
            for (String mechanism : mechanisms.split(","))
                addLogin(listener, prefix, mechanism.trim());
        }
    }

    private void addLogin(String listener, String prefix, String mechanism) {
        String name = prefix + mechanism.toLowerCase(Locale.ROOT) + JAAS;
        if (texts.containsKey(name))
            return;
        String expected = LOGIN_MODULES.getOrDefault(mechanism, "?");
        for (AppConfigurationEntry entry : JaasContext
                .loadServerContext(new ListenerName(listener), mechanism, Map.of()).configurationEntries())
            if (entry.getLoginModuleName().endsWith(expected))
                texts.put(name, line(entry));
    }

    private static String line(AppConfigurationEntry entry) {
        StringBuilder line = new StringBuilder(entry.getLoginModuleName()).append(" required");
        entry.getOptions().forEach((name, value) -> line
            .append(' ').append(name)
            .append("=\"").append(String.valueOf(value).replace("\\", "\\\\").replace("\"", "\\\"")).append('"'));
        return line.append(';').toString();
    }

    private void replacePrincipalBuilders() throws ReflectiveOperationException {
        String ofAll = texts.remove(BUILDER);
        for (String listener : listeners()) {
            String own = texts.remove(prefix(listener) + BUILDER);
            String builder = own == null ? ofAll : own;
            if (builder == null)
                continue;
            if (CERTIFICATE_RULES.containsKey(builder))
                texts.put("ssl.principal.mapping.rules", CERTIFICATE_RULES.get(builder));
            else if (protocolOf(listener).equals("PLAINTEXT"))
                principals.put(listener, principal(builder, listener));
            else
                throw new NotServed("a principal builder, a class of Java, that looks at logins or certificates");
        }
    }

    private static String principal(String builder, String listener) throws ReflectiveOperationException {
        KafkaPrincipalBuilder made =
            (KafkaPrincipalBuilder) Class.forName(builder).getDeclaredConstructor().newInstance();
        AuthenticationContext client =
            new PlaintextAuthenticationContext(InetAddress.getLoopbackAddress(), listener);
        return made.build(client).toString();
    }

    private static String prefix(String listener) {
        return "listener.name." + listener.toLowerCase(Locale.ROOT) + ".";
    }
}
