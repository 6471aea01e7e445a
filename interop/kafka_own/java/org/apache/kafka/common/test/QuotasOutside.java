package org.apache.kafka.common.test;

import kafka.network.ConnectionQuotas;
import kafka.server.QuotaFactory.QuotaManagers;
import kafka.server.ReplicationQuotaManager;

import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.server.quota.ClientQuotaManager;

import com.fasterxml.jackson.databind.JsonNode;

import java.net.InetAddress;
import java.util.Map;

/** The quotas that a broker has for its clients, their addresses and its replicas. */
final class QuotasOutside {
    private final String cluster;
    private final int id;

    QuotasOutside(String cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    QuotaManagers managers() {
        return Outside.of(QuotaManagers.class, Map.of(
            "produce", call -> ofClients("PRODUCE"),
            "fetch", call -> ofClients("FETCH"),
            "leader", call -> ofReplicas("leader.replication.throttled.rate"),
            "follower", call -> ofReplicas("follower.replication.throttled.rate"),
            "alterLogDirs", call -> ofReplicas("replica.alter.log.dirs.io.max.bytes.per.second")
        ));
    }

    private ClientQuotaManager ofClients(String kind) {
        return Outside.of(ClientQuotaManager.class, Map.of("quota", call -> {
            Object user = call.getArgument(0);
            KafkaPrincipal principal = user instanceof KafkaPrincipal
                ? (KafkaPrincipal) user : new KafkaPrincipal(KafkaPrincipal.USER_TYPE, (String) user);
            JsonNode limit = KafkapyBrokers.ask("quota", "directory", cluster, "number", id, "kind", kind,
                "principal", principal.toString(), "client_id", call.getArgument(1)).get("limit");
            return Quota.upperBound(limit.isNull() ? Long.MAX_VALUE : limit.asDouble());
        }));
    }

    private ReplicationQuotaManager ofReplicas(String setting) {
        return Outside.of(ReplicationQuotaManager.class, Map.of("upperBound", call ->
            KafkapyBrokers.ask("setting", "directory", cluster, "number", id, "name", setting).get("value").asLong()));
    }

    ConnectionQuotas ofAddresses() {
        return Outside.of(ConnectionQuotas.class, Map.of("connectionRateForIp", call -> {
            String address = call.<InetAddress>getArgument(0).getHostAddress();
            JsonNode limit = KafkapyBrokers.ask(
                "connection_rate", "directory", cluster, "number", id, "address", address).get("limit");
            return limit.isNull() ? Integer.MAX_VALUE : limit.asInt();
        }));
    }
}
