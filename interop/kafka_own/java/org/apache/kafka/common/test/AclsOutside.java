package org.apache.kafka.common.test;

import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.AclDeleteResult.AclBindingDeleteResult;
import org.apache.kafka.server.authorizer.Authorizer;

import com.fasterxml.jackson.databind.JsonNode;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** The ACLs of a broker, for tests that ask its Authorizer for them. */
final class AclsOutside {
    private final String cluster;
    private final int id;

    AclsOutside(String cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    Plugin<Authorizer> plugin() {
        Authorizer authorizer = Outside.of(Authorizer.class, Map.of(
            "acls", call -> find(call.getArgument(0)),
            "createAcls", call -> create(call.getArgument(1)),
            "deleteAcls", call -> delete(call.getArgument(1))
        ));
        return Outside.of(Plugin.class, Map.of("get", call -> authorizer));
    }

    private List<AclBinding> find(AclBindingFilter filter) {
        List<AclBinding> found = new ArrayList<>();
        for (JsonNode each : KafkapyBrokers.ask("acls", "directory", cluster, "number", id).get("acls")) {
            AclBinding acl = binding(each);
            if (filter.matches(acl))
                found.add(acl);
        }
        return found;
    }

    private List<CompletableFuture<AclCreateResult>> create(List<AclBinding> acls) {
        ask("create_acls", acls);
        return acls.stream().map(acl -> CompletableFuture.completedFuture(AclCreateResult.SUCCESS)).toList();
    }

    private List<CompletableFuture<AclDeleteResult>> delete(List<AclBindingFilter> filters) {
        List<CompletableFuture<AclDeleteResult>> results = new ArrayList<>();
        for (AclBindingFilter filter : filters) {
            List<AclBinding> found = find(filter);
            ask("delete_acls", found);
            results.add(CompletableFuture.completedFuture(
                new AclDeleteResult(found.stream().map(AclBindingDeleteResult::new).toList())));
        }
        return results;
    }

    private void ask(String command, List<AclBinding> acls) {
        KafkapyBrokers.ask(command, "directory", cluster, "number", id, "acls",
            acls.stream().map(AclsOutside::fields).toList());
    }

    private static List<Object> fields(AclBinding acl) {
        return List.of(
            acl.pattern().resourceType().code(), acl.pattern().patternType().code(), acl.pattern().name(),
            acl.entry().principal(), acl.entry().host(),
            acl.entry().operation().code(), acl.entry().permissionType().code());
    }

    private static AclBinding binding(JsonNode fields) {
        return new AclBinding(
            new ResourcePattern(
                ResourceType.fromCode((byte) fields.get(0).asInt()), fields.get(2).asText(),
                PatternType.fromCode((byte) fields.get(1).asInt())),
            new AccessControlEntry(
                fields.get(3).asText(), fields.get(4).asText(),
                AclOperation.fromCode((byte) fields.get(5).asInt()),
                AclPermissionType.fromCode((byte) fields.get(6).asInt())));
    }
}
