// Shortens names with Kafka's own KerberosShortNamer, for test_short_names.py.
//
// Lines in, with tabs between the words; the first has the rules, the second the name. Out: the short name, or
// "refused" for rules that cannot be read, or "none" for a name without a short one.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

public class ShortNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            out.println(answer(words[0], words[1]));
        }
        out.flush();
    }

    private static String answer(String rules, String name) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules("REALM", Arrays.asList(rules.split(",")));
        } catch (RuntimeException error) {
            return "refused";
        }
        try {
            return "=" + namer.shortName(KerberosName.parse(name));
        } catch (IOException | RuntimeException error) {
            return "none";
        }
    }
}
