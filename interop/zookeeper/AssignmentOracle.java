import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/**
 * Assigns replicas as Apache Kafka does.
 *
 * A line of input: seed, start index (-1: by chance), first partition, partitions, replication factor, brokers
 * (id:rack,…; an empty rack is none). A line of output: start index and shift that the seed gives, and the
 * replicas of each partition (1,2,3 …).
 */
public class AssignmentOracle {
    public static void main(String[] arguments) throws Exception {
        Field field = AdminUtils.class.getDeclaredField("RAND");
        field.setAccessible(true);
        Random chance = (Random) field.get(null);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            long seed = Long.parseLong(words[0]);
            List<BrokerMetadata> brokers = new ArrayList<>();
            for (String broker : words[5].split(",")) {
                String[] parts = broker.split(":", 2);
                Optional<String> rack = parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]);
                brokers.add(new BrokerMetadata(Integer.parseInt(parts[0]), rack));
            }
            Random same = new Random(seed);
            StringBuilder answer = new StringBuilder();
            answer.append(same.nextInt(brokers.size())).append(' ').append(same.nextInt(brokers.size()));
            chance.setSeed(seed);
            Map<Integer, List<Integer>> assignment = new TreeMap<>(AdminUtils.assignReplicasToBrokers(
                brokers, Integer.parseInt(words[3]), Integer.parseInt(words[4]), Integer.parseInt(words[1]),
                Integer.parseInt(words[2])));
            for (List<Integer> replicas : assignment.values())
                answer.append(' ').append(replicas.stream().map(String::valueOf).collect(Collectors.joining(",")));
            System.out.println(answer);
        }
    }
}
