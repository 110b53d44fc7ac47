package orders;

import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.model.ContainerConfig;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/**
 * Testcontainers' own container for Kafka, but its start runs a process. The environment and the start script are those
 * for a container engine, except the ports, which no engine maps here, and the path of the program.
 * {@code MUSTER_BINARY} names the binary.
 */
final class ProcessContainer extends KafkaContainer {
    private static final String STARTED_BY_IMAGE = "/etc/kafka/docker/run";
    private final Map<Integer, Integer> ports = new TreeMap<>();
    private String script;
    private Process process;

    ProcessContainer() {
        super(DockerImageName.parse("muster-test").asCompatibleSubstituteFor("apache/kafka"));
    }

    @Override
    public void start() {
        if (process != null) {
            return;
        }
        try {
            configure();
            Map<String, String> environment = new HashMap<>(getEnvMap());
            String listeners = environment.get("KAFKA_LISTENERS");
            for (int port : new int[] {9092, 9093, 9094}) {
                ports.put(port, freePort());
                listeners = listeners.replace(":" + port, ":" + ports.get(port));
            }
            environment.put("KAFKA_LISTENERS", listeners);
            containerIsStarting(named("localhost"));
            if (!script.contains(STARTED_BY_IMAGE)) {
                throw new IllegalStateException("another start script: " + script);
            }
            String binary = System.getenv("MUSTER_BINARY");
            Path file = Files.createTempFile("start", ".sh");
            Files.writeString(file, script.replace(STARTED_BY_IMAGE, "exec " + binary + " dev --environment"));
            Path log = Path.of("target", "server.log");
            ProcessBuilder builder = new ProcessBuilder("bash", file.toString()).redirectErrorStream(true);
            builder.environment().putAll(environment);
            process = builder.redirectOutput(log.toFile()).start();
            while (!Files.readString(log).contains("Transitioning from RECOVERY to RUNNING")) {
                if (process.waitFor(20, TimeUnit.MILLISECONDS)) {
                    throw new IllegalStateException("it has ended: " + Files.readString(log));
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void stop() {
        if (process != null) {
            process.destroy();
        }
    }

    @Override
    public boolean isRunning() {
        return process != null && process.isAlive();
    }

    @Override
    public boolean isCreated() {
        return process != null;
    }

    @Override
    public String getHost() {
        return "localhost";
    }

    @Override
    public Integer getMappedPort(int inner) {
        return ports.get(inner);
    }

    @Override
    public void copyFileToContainer(Transferable file, String path) {
        script = new String(file.getBytes(), StandardCharsets.UTF_8);
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    private static InspectContainerResponse named(String host) {
        ContainerConfig config = new ContainerConfig().withHostName(host);
        return new InspectContainerResponse() {
            @Override
            public ContainerConfig getConfig() {
                return config;
            }
        };
    }
}
