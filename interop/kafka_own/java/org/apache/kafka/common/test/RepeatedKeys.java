package org.apache.kafka.common.test;

import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyPairGeneratorSpi;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.Security;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Makes few RSA keys, and gives them again in turn.
 *
 * Tests with TLS make one for each broker and each client with a certificate. A JVM for short runs takes a second of
 * CPU time for each, most of what such a test takes.
 */
public final class RepeatedKeys extends Provider {
    /** More than the keys that one test compares. */
    private static final int KEYS = 6;

    private RepeatedKeys() {
        super("RepeatedKeys", "1", "RSA keys that are given again");
        put("KeyPairGenerator.RSA", Generator.class.getName());
    }

    public static void install() {
        Security.insertProviderAt(new RepeatedKeys(), 1);
    }

    public static final class Generator extends KeyPairGeneratorSpi {
        private static final Map<Integer, List<KeyPair>> MADE = new HashMap<>();
        private static int given = 0;

        private int bits = 2048;

        @Override
        public void initialize(int bits, SecureRandom random) {
            this.bits = bits;
        }

        @Override
        public KeyPair generateKeyPair() {
            synchronized (MADE) {
                List<KeyPair> keys = MADE.computeIfAbsent(bits, size -> new ArrayList<>());
                if (keys.size() < KEYS)
                    keys.add(newKey());
                return keys.get(given++ % keys.size());
            }
        }

        private KeyPair newKey() {
            try {
                KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA", "SunRsaSign");
                generator.initialize(bits);
                return generator.generateKeyPair();
            } catch (GeneralSecurityException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
