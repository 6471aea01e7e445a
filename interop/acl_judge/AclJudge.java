// Decides with Kafka's own StandardAuthorizer, for test_same_decisions.py.
//
// Lines in, with tabs between the words; constants are their numbers in the protocol:
//   world ALLOW_IF_NONE SUPER_USERS                        begins anew, without ACLs
//   acl TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION
//   may PRINCIPAL HOST OPERATION TYPE NAME                 answers true or false
//   some PRINCIPAL HOST OPERATION TYPE                     the same, for some resource of the type
//   find TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION   the ACLs that a filter finds, sorted; "-" is any

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class AclJudge {
    private record Caller(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override public String listenerName() { return "PLAINTEXT"; }
        @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        @Override public int requestType() { return 3; }
        @Override public int requestVersion() { return 0; }
        @Override public String clientId() { return "judge"; }
        @Override public int correlationId() { return 0; }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        PluginMetricsImpl metrics = null;
        StandardAuthorizer authorizer = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "world" -> {
                    if (metrics != null) {
                        metrics.close();
                    }
                    authorizer = new StandardAuthorizer();
                    metrics = new PluginMetricsImpl(new Metrics(), Map.of());
                    authorizer.withPluginMetrics(metrics);
                    authorizer.configure(Map.of("allow.everyone.if.no.acl.found", words[1], "super.users", words[2]));
                    authorizer.completeInitialLoad();
                }
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    type(words[1]), words[3], pattern(words[2]), words[4], words[5], operation(words[6]),
                    AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                case "may" -> {
                    ResourcePattern resource = new ResourcePattern(type(words[4]), words[5], PatternType.LITERAL);
                    Action action = new Action(operation(words[3]), resource, 1, false, false);
                    out.println(authorizer.authorize(caller(words), List.of(action)).get(0) == AuthorizationResult.ALLOWED);
                }
                case "some" -> out.println(authorizer.authorizeByResourceType(
                    caller(words), operation(words[3]), type(words[4])) == AuthorizationResult.ALLOWED);
                case "find" -> {
                    AclBindingFilter filter = new AclBindingFilter(
                        new ResourcePatternFilter(type(words[1]), text(words[3]), pattern(words[2])),
                        new AccessControlEntryFilter(text(words[4]), text(words[5]), operation(words[6]),
                            AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                    TreeSet<String> found = new TreeSet<>();
                    for (AclBinding acl : authorizer.acls(filter)) {
                        found.add(String.join(",", "" + acl.pattern().resourceType().code(),
                            "" + acl.pattern().patternType().code(), acl.pattern().name(), acl.entry().principal(),
                            acl.entry().host(), "" + acl.entry().operation().code(),
                            "" + acl.entry().permissionType().code()));
                    }
                    out.println(String.join(";", found));
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static Caller caller(String[] words) throws Exception {
        return new Caller(SecurityUtils.parseKafkaPrincipal(words[1]), InetAddress.getByName(words[2]));
    }

    private static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }

    private static PatternType pattern(String code) {
        return PatternType.fromCode(Byte.parseByte(code));
    }

    private static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    private static String text(String word) {
        return word.equals("-") ? null : word;
    }
}
