import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.DescribeDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/**
 * The admin client creates, renews and describes a token, and says what it saw. The arguments are a file with its
 * settings, and a file that gets the settings of a client that logs in by the token.
 */
public class Tokens {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream input = new FileInputStream(arguments[0])) {
            settings.load(input);
        }
        try (Admin admin = Admin.create(settings)) {
            KafkaPrincipal bob = new KafkaPrincipal("User", "bob");
            DelegationToken token = admin.createDelegationToken(
                new CreateDelegationTokenOptions().renewers(List.of(bob)).maxLifetimeMs(3600000))
                .delegationToken().get();
            System.out.println("owner\t" + token.tokenInfo().owner());
            long longest = token.tokenInfo().maxTimestamp() - token.tokenInfo().issueTimestamp();
            System.out.println("longest\t" + longest);
            DelegationToken shown = null;
            while (shown == null) { // a broker of Apache Kafka learns of it a little later
                for (DelegationToken each : admin.describeDelegationToken(
                        new DescribeDelegationTokenOptions().owners(List.of(bob))).delegationTokens().get()) {
                    if (each.tokenInfo().tokenId().equals(token.tokenInfo().tokenId())) {
                        shown = each;
                    }
                }
            }
            System.out.println("shown\t" + shown.tokenInfo().renewersAsString() + " "
                + shown.hmacAsBase64String().equals(token.hmacAsBase64String()));
            long renewed = admin.renewDelegationToken(
                token.hmac(), new RenewDelegationTokenOptions().renewTimePeriodMs(60000)).expiryTimestamp().get();
            System.out.println("renewed\t" + (renewed < token.tokenInfo().maxTimestamp()));
            DelegationToken doomed = admin.createDelegationToken().delegationToken().get();
            while (true) {
                try {
                    admin.expireDelegationToken(
                        doomed.hmac(), new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1)).expiryTimestamp().get();
                    break;
                } catch (Exception notFoundYet) {
                    Thread.sleep(20);
                }
            }
            System.out.println("expired\ttrue");
            settings.setProperty("sasl.mechanism", "SCRAM-SHA-512");
            settings.setProperty("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required"
                + " tokenauth=\"true\" username=\"" + token.tokenInfo().tokenId() + "\" password=\""
                + Base64.getEncoder().encodeToString(token.hmac()) + "\";");
            try (FileOutputStream output = new FileOutputStream(arguments[1])) {
                settings.store(output, null);
            }
        }
    }
}
