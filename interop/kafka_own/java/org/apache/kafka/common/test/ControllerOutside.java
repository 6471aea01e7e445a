package org.apache.kafka.common.test;

import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.ControllerServer;

import org.apache.kafka.controller.Controller;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;

import java.util.Collection;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** What stands for KRaft's controller in tests: it answers what a broker knows. */
final class ControllerOutside {
    private ControllerOutside() {
    }

    /**
     * One that has written nothing, for tests that wait until brokers have read what controllers wrote.
     *
     * kafkapy's brokers have, when they answer.
     */
    static ControllerServer server(Collection<BrokerOutside> brokers) {
        Outside.Answer log = Outside.part(RaftLog.class, Map.of("endOffset", call -> new LogOffsetMetadata(0)));
        Outside.Answer manager = Outside.part(KafkaRaftManager.class, Map.of("raftLog", log));
        Outside.Answer controller = Outside.part(Controller.class, Map.of(
            "isActive", call -> true,
            "findAllTopicIds", call -> CompletableFuture.completedFuture(first(brokers).topicIds())
        ));
        // Each broker answers what a controller would.
        Outside.Answer socket = Outside.part(SocketServer.class, Map.of("boundPort", call -> first(brokers).port()));
        return Outside.of(ControllerServer.class, Map.of(
            "config", call -> first(brokers).server().config(),
            "raftManager", manager,
            "controller", controller,
            "socketServer", socket,
            "authorizerPlugin", call -> first(brokers).server().authorizerPlugin()
        ));
    }

    private static BrokerOutside first(Collection<BrokerOutside> brokers) {
        return brokers.stream().filter(BrokerOutside::isRunning).findFirst().orElseThrow();
    }
}
