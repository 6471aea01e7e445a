package org.apache.kafka.common.test;

import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.security.authenticator.CredentialCache;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.security.CredentialProvider;

import com.fasterxml.jackson.databind.JsonNode;

import java.util.List;
import java.util.Map;

/** The users of SCRAM that a broker knows. */
final class UsersOutside {
    private UsersOutside() {
    }

    /** For tests that wait until a broker knows a user. */
    static CredentialProvider provider(String cluster, int id) {
        CredentialCache cache = Outside.of(CredentialCache.class, Map.of("cache", kind -> {
            String mechanism = kind.getArgument(0);
            return Outside.of(CredentialCache.Cache.class, Map.of(
                "get", user -> knows(cluster, id, mechanism, user.getArgument(0))
                    ? Outside.of(ScramCredential.class, Map.of()) : null));
        }));
        CredentialProvider provider = Outside.of(CredentialProvider.class, Map.of());
        Outside.set(provider, "credentialCache", cache);
        return provider;
    }

    private static boolean knows(String cluster, int id, String mechanism, String user) {
        JsonNode users = KafkapyBrokers.ask("users", "directory", cluster, "number", id).get("users");
        for (JsonNode each : users.path(mechanism))
            if (each.asText().equals(user))
                return true;
        return false;
    }

    /** A user that exists before the brokers start, as kafka-storage makes one. */
    static List<Object> fields(UserScramCredentialRecord user) {
        return List.of(
            user.name(), user.mechanism(), user.salt(), user.storedKey(), user.serverKey(), user.iterations());
    }
}
