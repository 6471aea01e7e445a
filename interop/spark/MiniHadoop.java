import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** HDFS and YARN in one process: writes the clients' settings into a folder, and ends with its input. */
public class MiniHadoop {
    public static void main(String[] args) throws Exception {
        try {
            run(new File(args[0]));
        } catch (Exception | Error problem) {
            problem.printStackTrace();
        }
        System.exit(0); // its threads would keep the process
    }

    private static void run(File folder) throws Exception {
        Configuration settings = new YarnConfiguration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(folder, "hdfs").getPath());
        MiniDFSCluster files = new MiniDFSCluster.Builder(settings).numDataNodes(1).build();
        files.waitActive();
        settings.set("fs.defaultFS", files.getFileSystem().getUri().toString());
        settings.setInt("yarn.nodemanager.resource.cpu-vcores", 8);
        settings.setInt("yarn.minicluster.yarn.nodemanager.resource.memory-mb", 6144);
        settings.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        settings.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        settings.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 99);
        settings.set("yarn.scheduler.capacity.root.queues", "default");
        settings.set("yarn.scheduler.capacity.root.default.capacity", "100");
        settings.set("yarn.scheduler.capacity.root.default.maximum-am-resource-percent", "1");
        MiniYARNCluster yarn = new MiniYARNCluster("yarn", 1, 1, 1);
        yarn.init(settings);
        yarn.start();
        if (!yarn.waitForNodeManagersToConnect(60_000)) {
            throw new IllegalStateException("no NodeManager has connected");
        }
        Configuration clients = new Configuration(false);
        for (Map.Entry<String, String> one : yarn.getConfig()) {
            if (one.getKey().matches("fs.defaultFS|dfs.namenode.http-address|yarn.resourcemanager.*address")) {
                clients.set(one.getKey(), one.getValue());
            }
        }
        File place = new File(folder, "conf");
        place.mkdirs();
        for (String name : new String[] {"core-site.xml", "yarn-site.xml"}) { // each read after its own defaults
            try (OutputStream written = new FileOutputStream(new File(place, name))) {
                clients.writeXml(written);
            }
        }
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
